//! What the target used by itself, in a few lines.

use super::text;
use jostle_profile::Profile;
use jostle_profile::UsedBy;
use jostle_profile::UsedQuantity;
use jostle_profile::reading::Reading;

/// What a reader looks for first; the file has the rest.
const SHOWN: [&str; 9] = [
    "cpu",
    "storage",
    "network-sent",
    "network-received",
    "resident",
    "page-cache",
    "memory-traffic",
    "llc-occupancy",
    "instructions",
];

/// A line per quantity that was read, and one with those that were not; none for
/// a profile without.
pub fn lines(profile: &Profile) -> Vec<String> {
    let Some(usage) = &profile.usage else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    let mut unread: Vec<(&str, &str)> = Vec::new();
    for name in SHOWN {
        match usage.quantities.get(name) {
            Some(Reading::Value(quantity)) => lines.push(line(name, quantity)),
            Some(Reading::Unavailable { unavailable }) => unread.push((name, unavailable)),
            None => {}
        }
    }
    // Several often share a reason.
    while let Some((_, reason)) = unread.first().copied() {
        let names: Vec<&str> = unread
            .iter()
            .filter(|(_, other)| *other == reason)
            .map(|(name, _)| *name)
            .collect();
        lines.push(format!("{}: not read: {reason}", names.join(", ")));
        unread.retain(|(_, other)| *other != reason);
    }
    lines
}

fn line(name: &str, quantity: &UsedQuantity) -> String {
    let by = match quantity.of {
        UsedBy::Target => "",
        UsedBy::Namespace => ", everybody in the target's network namespace",
        UsedBy::Machine => " at most, which is everybody's",
    };
    let share = match &quantity.share {
        Reading::Value(share) => {
            let [low, high] = share.ci95.map(text::number);
            let against = share.against_probe.as_ref();
            let against = against.map_or(String::new(), |it| format!("; {it}"));
            format!(
                ", {} % ({low}–{high}) of the peak ({}){against}",
                text::number(share.percent),
                share.peak_from
            )
        }
        // A share that nobody expects is not missed.
        Reading::Unavailable { .. } if quantity.resource.is_none() || quantity.value == 0.0 => {
            String::new()
        }
        Reading::Unavailable { unavailable } => format!(", share unknown: {unavailable}"),
    };
    format!("{name}: {}{by}{share}", amount(quantity))
}

fn amount(quantity: &UsedQuantity) -> String {
    let bytes = |suffix: &str| format!("{}{suffix}", text::bytes(quantity.value as u64));
    match quantity.unit.as_str() {
        "B" => bytes(""),
        "B/s" => bytes("/s"),
        "CPU s/s" => format!("{} CPUs", text::number(quantity.value)),
        unit => format!("{} {unit}", text::number(quantity.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jostle_profile::Usage;
    use jostle_profile::UsedShare;

    fn quantity(value: f64, unit: &str, share: Reading<UsedShare>) -> UsedQuantity {
        UsedQuantity {
            value,
            ci95: [value, value],
            unit: unit.into(),
            of: UsedBy::Target,
            source: "test".into(),
            resource: Some("cpu-time".into()),
            share,
        }
    }

    #[test]
    fn what_was_read_comes_first_and_reasons_are_told_once() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.join("tests/fixtures/profiles/kv-store.json");
        let mut profile = jostle_profile::load(&path).unwrap();
        assert_eq!(lines(&profile), Vec::<String>::new());
        let share = UsedShare {
            percent: 30.0,
            ci95: [28.0, 32.0],
            peak: 1.0,
            peak_from: "the target's 1 CPU".into(),
            against_probe: Some("agrees".into()),
        };
        let mut usage = Usage::default();
        let mut add = |name: &str, it| drop(usage.quantities.insert(name.into(), it));
        add(
            "cpu",
            Reading::Value(quantity(0.3, "CPU s/s", Reading::Value(share))),
        );
        let unknown = Reading::unavailable("no peak");
        add("storage", Reading::Value(quantity(2048.0, "B/s", unknown)));
        add("llc-occupancy", Reading::unavailable("no resctrl"));
        add("memory-traffic", Reading::unavailable("no resctrl"));
        profile.usage = Some(usage);
        assert_eq!(
            lines(&profile),
            [
                "cpu: 0.3 CPUs, 30 % (28–32) of the peak (the target's 1 CPU); agrees",
                "storage: 2 KiB/s, share unknown: no peak",
                "memory-traffic, llc-occupancy: not read: no resctrl",
            ]
        );
    }
}
