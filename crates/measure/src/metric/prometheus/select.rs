//! Which series of a page is the metric, and how two pages make a reading.

use super::page::Labels;
use super::page::Page;
use super::page::Sample;
use super::page::Type;
use super::page::labels;
use super::page::shown;
use crate::metric::StdoutKind;
use crate::metric::error::PrometheusError;
use crate::metric::error::SelectError;
use crate::near;
use jostle_load::Percentile;
use jostle_statistics::ByNumber;
use std::collections::BTreeMap;

/// `METRIC` of the request: a name, labels that must match, a quantile.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Selector {
    pub name: String,
    pub labels: Labels,
    pub quantile: Option<Percentile>,
}

/// How readings are made of what matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Plan {
    /// Growth per second, summed over the series.
    Counter,
    /// The value of the one series.
    Gauge,
    /// The quantile of what was observed within a window.
    Histogram(Percentile),
    /// The quantile as the endpoint computes it.
    Summary(Percentile),
}

/// Takes `URL:METRIC` apart.
pub(super) fn split(text: &str) -> Result<(String, Selector), PrometheusError> {
    let (head, labels, tail) = match text.split_once('{') {
        Some((head, inside)) => {
            let (labels, tail) = labels(inside)?;
            (head, labels, tail)
        }
        None => match text.rfind(':') {
            Some(at) if text[at + 1..].parse::<Percentile>().is_ok() => {
                (&text[..at], Labels::new(), &text[at..])
            }
            _ => (text, Labels::new(), ""),
        },
    };
    let quantile = match (tail, tail.strip_prefix(':').map(str::parse)) {
        ("", _) => None,
        (_, Some(Ok(percentile))) => Some(percentile),
        _ => return Err(PrometheusError::Percentile(tail.into())),
    };
    let (url, name) = head
        .rsplit_once(':')
        .filter(|(url, name)| !url.is_empty() && !name.is_empty() && !name.contains('/'))
        .filter(|(url, _)| !["http", "https"].contains(url))
        .ok_or(PrometheusError::NoName)?;
    let selector = Selector {
        name: name.to_string(),
        labels,
        quantile,
    };
    Ok((address(url)?, selector))
}

/// The full address: `http://` and `/metrics` may be left out.
fn address(given: &str) -> Result<String, PrometheusError> {
    let (scheme, rest) = match given.strip_prefix("https://") {
        Some(rest) => ("https", rest),
        None => ("http", given.strip_prefix("http://").unwrap_or(given)),
    };
    if rest.contains("://") || rest.is_empty() || rest.starts_with('/') {
        return Err(PrometheusError::Address(given.into()));
    }
    Ok(match rest.contains('/') {
        true => format!("{scheme}://{rest}"),
        false => format!("{scheme}://{rest}/metrics"),
    })
}

impl Selector {
    /// Samples called `name` whose labels fit.
    fn hits<'a>(&self, page: &'a Page, name: &str) -> Vec<&'a Sample> {
        let fits = |sample: &&Sample| {
            let has = |(label, value)| sample.labels.get(label) == Some(value);
            sample.name == name && self.labels.iter().all(has)
        };
        page.samples.iter().filter(fits).collect()
    }

    fn buckets<'a>(&self, page: &'a Page) -> Vec<&'a Sample> {
        let mut found = self.hits(page, &format!("{}_bucket", self.name));
        found.retain(|sample| sample.labels.contains_key("le"));
        found
    }

    fn quantiles<'a>(&self, page: &'a Page) -> Vec<(f64, &'a Sample)> {
        let of = |sample: &'a Sample| Some((sample.labels.get("quantile")?.parse().ok()?, sample));
        let hits = self.hits(page, &self.name);
        hits.into_iter().filter_map(of).collect()
    }

    /// How to read what matches on `page`.
    ///
    /// # Errors
    /// No such metric and which are near, several series, or a quantile that
    /// there is not.
    pub(super) fn plan(&self, page: &Page, kind: StdoutKind) -> Result<Plan, SelectError> {
        match self.quantile {
            Some(quantile) if !self.buckets(page).is_empty() => Ok(Plan::Histogram(quantile)),
            Some(quantile) => self.plan_summary(page, quantile),
            None => self.plan_plain(page, kind),
        }
    }

    fn plan_summary(&self, page: &Page, wanted: Percentile) -> Result<Plan, SelectError> {
        let all = self.quantiles(page);
        if all.is_empty() {
            return Err(match self.hits(page, &self.name).is_empty() {
                true => self.absent(page),
                false => SelectError::NoPercentiles(self.name.clone()),
            });
        }
        let fits: Vec<_> = all.iter().filter(|(q, _)| is(*q, wanted)).collect();
        match fits.len() {
            0 => {
                let mut there: Vec<String> =
                    all.iter().map(|(q, _)| format!("p{}", 100.0 * q)).collect();
                there.sort_unstable();
                there.dedup();
                Err(SelectError::NoSuchPercentile {
                    name: self.name.clone(),
                    there: there.join(", "),
                })
            }
            1 => Ok(Plan::Summary(wanted)),
            _ => Err(self.several(fits.iter().map(|(_, sample)| *sample))),
        }
    }

    fn plan_plain(&self, page: &Page, kind: StdoutKind) -> Result<Plan, SelectError> {
        let hits = self.hits(page, &self.name);
        let needs_percentile = |what| SelectError::NeedsPercentile {
            name: self.name.clone(),
            what,
        };
        match page.type_of(&self.name) {
            _ if hits.is_empty() => Err(match self.buckets(page).is_empty() {
                true => self.absent(page),
                false => needs_percentile("histogram"),
            }),
            Type::Counter => Ok(Plan::Counter),
            Type::Summary => Err(needs_percentile("summary")),
            _ if kind == StdoutKind::Rate => Ok(Plan::Counter),
            _ if hits.len() == 1 => Ok(Plan::Gauge),
            _ => Err(self.several(hits.into_iter())),
        }
    }

    fn several<'a>(&self, hits: impl Iterator<Item = &'a Sample>) -> SelectError {
        SelectError::Several {
            name: self.name.clone(),
            series: first_series(hits),
        }
    }

    fn absent(&self, page: &Page) -> SelectError {
        let same = |sample: &&Sample| sample.name == self.name;
        let there = first_series(page.samples.iter().filter(same));
        if !there.is_empty() {
            return SelectError::NoSeries {
                wanted: shown(&self.name, &self.labels),
                there,
            };
        }
        let names = page.names();
        let otherwise = format!("; the page has {} others", names.len());
        SelectError::NoMetric {
            name: self.name.clone(),
            hint: near::hint(&self.name, names, &otherwise),
        }
    }

    /// Totals that grow, by series, for [`grown`].
    pub(super) fn totals(&self, page: &Page, plan: Plan) -> Result<Totals, SelectError> {
        let hits = match plan {
            Plan::Histogram(_) => self.buckets(page),
            _ => self.hits(page, &self.name),
        };
        if hits.is_empty() {
            return Err(self.absent(page));
        }
        let number = |sample: &Sample| match (sample.series(), sample.value) {
            (series, value) if value.is_finite() => {
                Ok((series, (sample.labels.get("le").cloned(), value)))
            }
            (series, value) => Err(SelectError::NotFinite { series, value }),
        };
        hits.into_iter().map(number).collect()
    }

    /// The value of a gauge or of a summary's quantile.
    pub(super) fn value(&self, page: &Page, plan: Plan) -> Result<f64, SelectError> {
        let sample = match plan {
            Plan::Summary(wanted) => {
                let mut all = self.quantiles(page).into_iter();
                all.find(|(q, _)| is(*q, wanted)).map(|(_, sample)| sample)
            }
            _ => self.hits(page, &self.name).first().copied(),
        };
        match sample {
            None => Err(self.absent(page)),
            Some(sample) if sample.value.is_finite() => Ok(sample.value),
            Some(sample) => Err(SelectError::NothingObserved {
                series: sample.series(),
                value: sample.value,
            }),
        }
    }
}

/// Whether a summary's quantile (0–1) is the percentile.
fn is(quantile: f64, wanted: Percentile) -> bool {
    (quantile - wanted.share()).abs() < 1e-9
}

/// The first few, as they would be written.
fn first_series<'a>(samples: impl Iterator<Item = &'a Sample>) -> String {
    let series: Vec<String> = samples.take(5).map(Sample::series).collect();
    series.join(" ")
}

/// By series: the bucket's bound, if it is one, and the total.
pub(super) type Totals = BTreeMap<String, (Option<String>, f64)>;

/// What each series grew by. One that went down was reset to 0 in between, and
/// one that is new began at 0, as Prometheus has it.
fn growths<'a>(
    from: &'a Totals,
    to: &'a Totals,
) -> impl Iterator<Item = (&'a Option<String>, f64)> {
    to.iter().map(|(series, (bound, now))| {
        let before = from.get(series).map_or(0.0, |(_, before)| *before);
        let grown = if *now >= before { now - before } else { *now };
        (bound, grown)
    })
}

/// Growth of a counter, summed over its series.
pub(super) fn grown(from: &Totals, to: &Totals) -> f64 {
    growths(from, to).map(|(_, grown)| grown).sum()
}

/// What was observed between two pages: the number of observations and the
/// quantile, by linear interpolation within its bucket. Beyond the last finite
/// bound it is that bound.
pub(super) fn quantile(
    from: &Totals,
    to: &Totals,
    wanted: Percentile,
) -> Result<(f64, f64), SelectError> {
    let mut buckets: Vec<(f64, f64)> = Vec::new();
    for (bound, grown) in growths(from, to) {
        let bound: f64 = bound
            .as_deref()
            .and_then(|bound| bound.parse().ok())
            .ok_or_else(|| SelectError::Bound(bound.clone()))?;
        match buckets.iter_mut().find(|(known, _)| *known == bound) {
            Some((_, sum)) => *sum += grown,
            None => buckets.push((bound, grown)),
        }
    }
    buckets.sort_by_number(|it| it.0);
    // A page is not written in one instant: keep the counts ascending.
    let mut most = 0.0f64;
    for (_, count) in &mut buckets {
        most = most.max(*count);
        *count = most;
    }
    if !buckets.last().is_some_and(|(bound, _)| bound.is_infinite()) {
        return Err(SelectError::NoLastBucket);
    }
    if most <= 0.0 {
        return Ok((0.0, f64::NAN));
    }
    let rank = wanted.share() * most;
    let at = buckets.iter().position(|(_, count)| *count >= rank);
    let at = at.unwrap_or(buckets.len() - 1);
    let (bound, count) = buckets[at];
    let below = at.checked_sub(1).map(|at| buckets[at]);
    let value = match below {
        None if bound.is_infinite() => return Err(SelectError::NoFiniteBucket),
        // The first bucket begins at 0, unless it lies below.
        None if bound <= 0.0 => bound,
        None => bound * rank / count,
        Some((low, _)) if bound.is_infinite() => low,
        Some((low, before)) => low + (bound - low) * (rank - before) / (count - before),
    };
    Ok((most, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, Selector) {
        split(text).unwrap()
    }

    #[test]
    fn requests_are_taken_apart() {
        let (url, selector) = parts("http://127.0.0.1:9121/metrics:redis_commands_total");
        assert_eq!(url, "http://127.0.0.1:9121/metrics");
        assert_eq!(selector.name, "redis_commands_total");
        let (url, selector) = parts("localhost:80:up");
        assert_eq!(
            (url.as_str(), selector.name.as_str()),
            ("http://localhost:80/metrics", "up")
        );
        assert_eq!(parts("https://h:9100:up").0, "https://h:9100/metrics");
        let (url, selector) = parts("http://h:1/m?x=y:rpc{a=\"b:c\",d=\"e\"}:p99.9");
        assert_eq!(url, "http://h:1/m?x=y");
        assert_eq!(selector.labels["a"], "b:c");
        assert!((selector.quantile.unwrap().share() - 0.999).abs() < 1e-12);
        assert_eq!(parts("h:1:rpc:p50").1.quantile, Some(Percentile::P50));
        for wrong in [
            "",
            "up",
            "http://h:1/metrics",
            "http://up",
            "h:1:",
            "h:1:x{a}",
            "h:1:x{a=\"b\"}:99",
            "https:///metrics:x",
            "ftp://h/m:x",
        ] {
            assert!(split(wrong).is_err(), "{wrong}");
        }
    }

    fn page(text: &str) -> Page {
        Page::parse(text).unwrap()
    }

    fn plan(page: &Page, metric: &str, kind: StdoutKind) -> Result<Plan, SelectError> {
        parts(&format!("h:1:{metric}")).1.plan(page, kind)
    }

    const PAGE: &str = "# TYPE temp gauge\ntemp{room=\"a\"} 1\ntemp{room=\"b\"} 2\n\
        # TYPE hits counter\nhits{code=\"200\"} 5\nhits{code=\"500\"} 1\n\
        jobs_total 3\nplain 4\n\
        # TYPE rt summary\nrt{quantile=\"0.5\"} 1\nrt{quantile=\"0.99\"} 9\nrt_count 4\n\
        # TYPE lat histogram\nlat_bucket{le=\"1\"} 1\nlat_bucket{le=\"+Inf\"} 2\nlat_count 2\n";

    #[test]
    fn the_type_decides() {
        let page = page(PAGE);
        let value = |metric| plan(&page, metric, StdoutKind::Value);
        assert_eq!(value("hits"), Ok(Plan::Counter));
        assert_eq!(value("jobs_total"), Ok(Plan::Counter));
        assert_eq!(value("plain"), Ok(Plan::Gauge));
        assert_eq!(plan(&page, "plain", StdoutKind::Rate), Ok(Plan::Counter));
        assert_eq!(value("temp{room=\"a\"}"), Ok(Plan::Gauge));
        assert_eq!(value("rt:p99"), Ok(Plan::Summary(Percentile::P99)));
        assert_eq!(value("rt_count"), Ok(Plan::Counter));
        assert_eq!(value("lat:p90"), Ok(Plan::Histogram(Percentile::P90)));
        let error = |metric| value(metric).unwrap_err().to_string();
        assert!(error("temp").contains("temp{room=\"b\"}"));
        assert!(error("temp{room=\"c\"}").contains("no series fits"));
        assert!(error("rt:p90").contains("p50, p99"), "{}", error("rt:p90"));
        assert!(error("rt").contains("rt:p99"));
        assert!(error("lat").contains("lat:p99"));
        assert!(error("plain:p99").contains("neither"));
        assert!(error("job_total").contains("near names: jobs_total"));
        assert!(error("zzzzzzz").contains("the page has"));
    }

    #[test]
    fn counters_grow_and_are_reset() {
        let totals = |text| {
            let page = page(text);
            parts("h:1:hits").1.totals(&page, Plan::Counter).unwrap()
        };
        let from = totals("hits{a=\"1\"} 10\nhits{a=\"2\"} 5\n");
        let on = totals("hits{a=\"1\"} 13\nhits{a=\"2\"} 5\nhits{a=\"3\"} 2\n");
        assert_eq!(grown(&from, &on), 5.0);
        let reset = totals("hits{a=\"1\"} 4\nhits{a=\"2\"} 6\n");
        assert_eq!(grown(&from, &reset), 5.0);
        assert_eq!(grown(&from, &from), 0.0);
        let none = parts("h:1:hits")
            .1
            .totals(&page("hits NaN\n"), Plan::Counter);
        assert!(none.unwrap_err().to_string().contains("NaN"));
    }

    fn buckets(counts: [u32; 4]) -> Totals {
        let bounds = ["0.1", "0.2", "0.5", "+Inf"];
        let lines = bounds.iter().zip(counts);
        let text: String = lines
            .map(|(bound, count)| format!("lat_bucket{{le=\"{bound}\"}} {count}\n"))
            .collect();
        let selector = parts("h:1:lat:p50").1;
        selector
            .totals(&page(&text), Plan::Histogram(Percentile::P50))
            .unwrap()
    }

    #[test]
    fn quantiles_come_from_what_was_added() {
        let from = buckets([100, 100, 100, 100]);
        let to = buckets([150, 190, 200, 200]);
        let close = |wanted: &str, value: f64| {
            let (count, found) = quantile(&from, &to, wanted.parse().unwrap()).unwrap();
            assert_eq!(count, 100.0);
            assert!((found - value).abs() < 1e-9, "{wanted}: {found}");
        };
        close("p25", 0.05);
        close("p50", 0.1);
        close("p70", 0.15);
        close("p95", 0.35);
        // Nothing is known beyond the last bound.
        let beyond = buckets([100, 100, 100, 200]);
        assert_eq!(
            quantile(&from, &beyond, Percentile::P90).unwrap(),
            (100.0, 0.5)
        );
        // Nothing observed, and a restart in between.
        assert_eq!(quantile(&from, &from, Percentile::P50).unwrap().0, 0.0);
        assert_eq!(
            quantile(&from, &buckets([2, 4, 4, 4]), Percentile::P50).unwrap(),
            (4.0, 0.1)
        );
    }
}
