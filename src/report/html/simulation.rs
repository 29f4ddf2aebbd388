//! What `jostle simulate --json` wrote, read back as it is: a table of the policies (or
//! strategies, or schemes), and of jobs how their performance is distributed.

use super::plot::Plot;
use super::sheet;
use super::sheet::escaped;
use crate::report::text;
use jostle_statistics::ByNumber;
use serde_json::Value;

/// Lists under which a document of `jostle simulate` has its results, and the key of
/// each result that names it.
const LISTS: [(&str, &str); 3] = [
    ("policies", "policy"),
    ("strategies", "strategy"),
    ("schemes", "scheme"),
];

/// Figures of jobs that a reader looks for, with their titles; the file has the rest.
const OF_JOBS: [(&str, &str, bool); 6] = [
    ("mean_performance", "performance", true),
    ("qos_share", "QoS kept", true),
    ("lost_over_10", "lost > 10 %", true),
    ("lost_over_20", "lost > 20 %", true),
    ("utilization", "CPUs in use", true),
    ("queueing_mean_seconds", "queued, s", false),
];

/// Lines that can be told apart.
const MOST_LINES: usize = 4;

/// A simulation, as far as a page needs it.
pub struct Simulation {
    pub name: String,
    list: &'static str,
    named: &'static str,
    document: Value,
}

impl Simulation {
    /// `None` where the document is of something else.
    pub fn of(document: Value) -> Option<Simulation> {
        let name = document.get("scenario")?.as_str()?.to_string();
        let (list, named) = LISTS.into_iter().find(|(list, named)| {
            let results = document.get(list).and_then(Value::as_array);
            results.is_some_and(|all| !all.is_empty() && all.iter().all(|it| it[named].is_string()))
        })?;
        Some(Simulation {
            name,
            list,
            named,
            document,
        })
    }

    fn results(&self) -> impl Iterator<Item = &Value> {
        self.document[self.list].as_array().into_iter().flatten()
    }

    fn name_of(&self, result: &Value) -> String {
        let name = text::clean(result[self.named].as_str().unwrap_or_default());
        match (
            result["admission"].as_str(),
            result["with_profiles"].as_bool(),
        ) {
            (Some(admission), _) if admission != "none" => format!("{name} + {admission}"),
            (_, Some(false)) => format!("{name} without profiles"),
            _ => name,
        }
    }

    /// The conclusion, the table and the distribution.
    pub fn content(&self, level: u8) -> String {
        let of_jobs = self.results().all(|it| it["mean"].is_object());
        let (performance, rows) = match of_jobs {
            true => ("mean_performance", self.jobs()),
            false => ("performance", self.others()),
        };
        let mut page = sheet::paragraph("lead", &self.conclusion(performance));
        page += &rows;
        if of_jobs {
            page += &self.distribution(level);
        }
        page
    }

    fn conclusion(&self, key: &str) -> String {
        let keys = [key, "mean_performance"];
        let of = |it: &Value| {
            let found = keys.iter().find_map(|key| number(it, key));
            Some((self.name_of(it), found?.0))
        };
        let mut all: Vec<(String, f64)> = self.results().filter_map(of).collect();
        all.sort_by_number(|it| -it.1);
        match (all.first(), all.last()) {
            (Some((best, most)), Some((worst, least))) if all.len() > 1 => format!(
                "Of {} {} the jobs do best under {best}: {:.1} % of their performance alone, \
                 against {:.1} % under {worst}.",
                all.len(),
                self.list,
                most * 100.0,
                least * 100.0
            ),
            (Some((only, value)), _) => {
                format!(
                    "Under {only}: {:.1} % of the performance alone.",
                    value * 100.0
                )
            }
            _ => format!("{} {}.", self.results().count(), self.list),
        }
    }

    fn jobs(&self) -> String {
        let rows: Vec<Vec<String>> = self
            .results()
            .map(|result| {
                let figures = OF_JOBS.map(|(key, _, share)| shown(number(result, key), share));
                std::iter::once(self.name_of(result))
                    .chain(figures)
                    .collect()
            })
            .collect();
        let titles = OF_JOBS.map(|(_, title, _)| title);
        let titles: Vec<&str> = std::iter::once(self.named).chain(titles).collect();
        sheet::figures(
            &format!(
                "{}: means over jobs; ± is one standard error over seeds",
                self.name
            ),
            &titles,
            &rows,
            1,
        )
    }

    /// Every figure that is a mean, under its own key.
    fn others(&self) -> String {
        let mut keys: Vec<&String> = Vec::new();
        for result in self.results().filter_map(Value::as_object) {
            let means = result.iter().filter(|(_, value)| value["mean"].is_number());
            for (key, _) in means {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        let titles: Vec<String> = keys.iter().map(|key| key.replace('_', " ")).collect();
        let titles: Vec<&str> = std::iter::once(self.named)
            .chain(titles.iter().map(String::as_str))
            .collect();
        let rows: Vec<Vec<String>> = self
            .results()
            .map(|result| {
                let figures = keys.iter().map(|key| shown(number(result, key), false));
                std::iter::once(self.name_of(result))
                    .chain(figures)
                    .collect()
            })
            .collect();
        sheet::figures(
            &format!("{}: means; ± is one standard error over seeds", self.name),
            &titles,
            &rows,
            1,
        )
    }

    /// Which share of the jobs keeps at most how much.
    fn distribution(&self, level: u8) -> String {
        let of = |it: &Value| -> Option<(String, Vec<[f64; 2]>)> {
            let points = it["performance_cdf"].as_array()?.iter();
            let points: Option<Vec<[f64; 2]>> = points
                .map(|it| Some([it[1].as_f64()? * 100.0, it[0].as_f64()? * 100.0]))
                .collect();
            Some((self.name_of(it), points?))
        };
        let lines: Vec<(String, Vec<[f64; 2]>)> = self.results().filter_map(of).collect();
        if lines.is_empty() {
            return String::new();
        }
        let figures: String = lines
            .chunks(MOST_LINES)
            .map(|lines| {
                let mut plot = Plot::new([300.0, 180.0], [0.0, 100.0], [0.0, 105.0]);
                for (at, (_, points)) in lines.iter().enumerate() {
                    plot.line(&format!("line s{at}"), points.iter().copied());
                }
                let names: Vec<String> = lines.iter().map(|(name, _)| name.clone()).collect();
                let key = |(at, name): (usize, &String)| {
                    let name = escaped(name);
                    format!("<span><span class=\"key s{at}\"></span>{name}</span>")
                };
                let legend: String = names.iter().enumerate().map(key).collect();
                let words = format!("performance by share of jobs: {}", names.join(", "));
                format!(
                    "<figure>{}<figcaption class=\"legend\">{legend}</figcaption></figure>\n",
                    plot.svg(&words)
                )
            })
            .collect();
        let title = "Performance (%) that so many percent of the jobs do not exceed";
        let title = sheet::heading(level, title);
        format!("{title}<div class=\"grid\">{figures}</div>")
    }
}

/// A mean and its standard error, from either form that documents have.
fn number(result: &Value, key: &str) -> Option<(f64, Option<f64>)> {
    let whole = &result["mean"];
    if whole.is_object() {
        return Some((whole[key].as_f64()?, result["standard_error"][key].as_f64()));
    }
    let own = &result[key];
    Some((own["mean"].as_f64()?, own["standard_error"].as_f64()))
}

fn shown(number: Option<(f64, Option<f64>)>, share: bool) -> String {
    let scale = if share { 100.0 } else { 1.0 };
    let digits = |value: f64| match share {
        true => format!("{:.1}", value * scale),
        // A zero has no sign.
        false => text::number(value + 0.0),
    };
    let unit = if share { " %" } else { "" };
    match number {
        None => "–".into(),
        Some((mean, None)) => format!("{}{unit}", digits(mean)),
        Some((mean, Some(error))) => format!("{} ± {}{unit}", digits(mean), digits(error)),
    }
}
