//! Secrets in command lines and addresses: profiles are kept and passed on, so that
//! what looks like a password must not get into them.

use regex_lite::Regex;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Stands in place of a secret.
pub const REDACTED: &str = "***";

/// What options and variables with a secret are called; not those with its file.
const SECRET: &str =
    r"[\w.-]*(?:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|credentials?)";

/// Programs that take a secret by an option that does not say so: the program, the
/// option, and whether the secret follows in the same word.
const OPTIONS: [(&str, &str, bool); 9] = [
    ("redis-cli", "-a", false),
    ("redis-benchmark", "-a", false),
    ("curl", "-u", false),
    ("curl", "--user", false),
    ("sshpass", "-p", true),
    ("mysql", "-p", true),
    ("mysqldump", "-p", true),
    ("mysqlslap", "-p", true),
    ("mariadb", "-p", true),
];

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of ours is valid")
}

/// Within one word or text: what goes before the secret is kept.
static WITHIN: LazyLock<[Regex; 4]> = LazyLock::new(|| {
    [
        // scheme://user:password@host
        pattern(r"([A-Za-z][A-Za-z0-9+.-]*://[^/\s:@]*:)[^@\s/]+(@)"),
        // --db-password=x, PGPASSWORD=x, ?token=x
        pattern(&format!(
            r#"(?i)({SECRET}=)(?:"[^"]*"|'[^']*'|[^\s&"']+)()"#
        )),
        // --password x, in a script
        pattern(&format!(
            r#"(?i)(--?{SECRET}\s+)(?:"[^"]*"|'[^']*'|[^\s"'-][^\s"']*)()"#
        )),
        // Authorization: Bearer x
        pattern(r#"(?i)(authorization:\s*(?:[a-z]+\s+)?)[^\s"']+()"#),
    ]
});

/// An option whose value is the next word.
static OPTION: LazyLock<Regex> = LazyLock::new(|| pattern(&format!("(?i)^--?{SECRET}$")));

/// `text` with [`REDACTED`] in place of what looks like a secret.
pub fn text(text: &str) -> String {
    let mut clean = Cow::Borrowed(text);
    for pattern in WITHIN.iter() {
        if pattern.is_match(&clean) {
            let replaced = pattern.replace_all(&clean, format!("${{1}}{REDACTED}${{2}}"));
            clean = Cow::Owned(replaced.into_owned());
        }
    }
    clean.into_owned()
}

/// A command line with [`REDACTED`] in place of what looks like a secret.
pub fn command(words: Vec<String>) -> Vec<String> {
    let mut clean: Vec<String> = Vec::with_capacity(words.len());
    let mut secret_next = false;
    let mut program = String::new();
    for word in words {
        if std::mem::take(&mut secret_next) {
            clean.push(REDACTED.into());
            continue;
        }
        // `env A=b nice redis-cli …`: the last word that is a program's name.
        let name = word.rsplit('/').next().unwrap_or_default();
        if OPTIONS.iter().any(|(known, ..)| *known == name) {
            program = name.into();
        }
        secret_next = OPTION.is_match(&word);
        let mut redacted = text(&word);
        for (_, option, same_word) in OPTIONS.iter().filter(|(known, ..)| *known == program) {
            secret_next |= word == *option && (!same_word || program == "sshpass");
            if *same_word && word.starts_with(option) && word.len() > option.len() {
                redacted = format!("{option}{REDACTED}");
            }
        }
        clean.push(redacted);
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> String {
        let words = line.split(' ').map(String::from).collect();
        command(words).join(" ")
    }

    #[test]
    fn what_looks_like_a_secret_is_taken_out() {
        for (line, clean) in [
            ("app --password hunter2 x", "app --password *** x"),
            ("app --db-password=hunter2", "app --db-password=***"),
            ("env PGPASSWORD=hunter2 psql", "env PGPASSWORD=*** psql"),
            ("app --api-key K --token T", "app --api-key *** --token ***"),
            (
                "app redis://me:hunter2@host:1/0",
                "app redis://me:***@host:1/0",
            ),
            (
                "app http://h/?a=1&token=T&b=2",
                "app http://h/?a=1&token=***&b=2",
            ),
            (
                "/usr/bin/redis-cli -a hunter2 ping",
                "/usr/bin/redis-cli -a *** ping",
            ),
            ("nice mysql -phunter2 -P 33", "nice mysql -p*** -P 33"),
            ("curl -u me:hunter2 http://h", "curl -u *** http://h"),
            ("sshpass -p hunter2 ssh h", "sshpass -p *** ssh h"),
        ] {
            assert_eq!(of(line), clean);
        }
        let script = "export API_KEY='a b'; curl -H 'Authorization: Bearer abc' --token T u";
        assert_eq!(
            text(script),
            "export API_KEY=***; curl -H 'Authorization: Bearer ***' --token *** u"
        );
    }

    #[test]
    fn what_is_none_stays() {
        for line in [
            "app --password-file /run/secret --tokens 5 --user me",
            "app http://host:80/a@b user@host:22",
            "cp -a from to",
            "mysql -p -P 3306",
            "mkdir -p a/b",
            "tokenizer --secretary x key=value",
        ] {
            assert_eq!(of(line), line);
        }
    }
}
