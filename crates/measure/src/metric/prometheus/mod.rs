//! `prometheus:URL:METRIC`: a number that the target, or an exporter beside
//! it, shows on a page of metrics.

#[cfg(any(test, feature = "fuzzing"))]
pub(super) mod fuzzing;
mod page;
mod select;
#[cfg(feature = "tls")]
mod trust;

use super::Context;
use super::Metric;
use super::MetricOptions;
use super::StdoutKind;
use super::begun;
use super::error::PageError;
use super::error::PrometheusError;
use super::error::Reason;
use super::facts;
use super::oriented;
use super::pace;
use super::poller;
use super::poller::Poller;
use crate::error::Error;
use crate::error::Result;
use crate::warning::Warning;
use crate::workload::Target;
use jostle_host::sys::clock::monotonic_ns;
use jostle_load::Percentile;
use jostle_profile::Direction;
use jostle_profile::MetricFacts;
use jostle_profile::Resolution;
use page::Page;
use select::Plan;
use select::Selector;
use select::Totals;
use std::sync::mpsc;
use std::time::Duration;
use std::time::Instant;

/// Largest page that is read.
const LARGEST_PAGE: u64 = 16 << 20;

/// A page is asked for at most this share of the time, so that answering does
/// not become the target's work.
const SHARE: u32 = 10;

/// Observations a window must hold beyond its percentile, and the fewest with
/// which it still says something.
const BEYOND: f64 = 20.0;
const FEWEST_BEYOND: f64 = 1.0;

/// How a page is fetched.
#[derive(Clone)]
struct Client {
    agent: ureq::Agent,
    url: String,
    limit: Duration,
}

impl Client {
    fn new(url: String, options: &MetricOptions) -> Result<Client, PrometheusError> {
        let limit = options.probe_timeout;
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(limit))
            // The page of this target, and not what it or an environment names.
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("jostle/", env!("CARGO_PKG_VERSION")));
        let secured = url.starts_with("https://");
        if let (false, Some(path)) = (secured, &options.ca) {
            return Err(PrometheusError::NoTls(path.clone()));
        }
        #[cfg(feature = "tls")]
        let config = match secured {
            true => {
                let trusted = trust::trust(options.ca.as_deref());
                config.tls_config(trusted.map_err(PrometheusError::Trust)?)
            }
            false => config,
        };
        #[cfg(not(feature = "tls"))]
        if secured {
            return Err(PrometheusError::Https);
        }
        Ok(Client {
            agent: config.build().into(),
            url,
            limit,
        })
    }

    fn fetch(&self) -> Result<Page, PageError> {
        let response = self.agent.get(&self.url).call();
        let mut response = response.map_err(|error| self.explain(error))?;
        if !response.status().is_success() {
            return Err(PageError::Status(response.status().as_u16()));
        }
        let body = response.body_mut().with_config().limit(LARGEST_PAGE);
        let body = body.read_to_vec().map_err(|error| self.explain(error))?;
        let text = std::str::from_utf8(&body).map_err(|error| {
            let before = &body[..error.valid_up_to()];
            PageError::Utf8(before.iter().filter(|&&byte| byte == b'\n').count() + 1)
        })?;
        Page::parse(text)
    }

    fn explain(&self, error: ureq::Error) -> PageError {
        match error {
            ureq::Error::StatusCode(status) => PageError::Status(status),
            ureq::Error::Timeout(_) => PageError::Timeout(self.limit),
            ureq::Error::BodyExceedsLimit(_) => PageError::TooLarge(LARGEST_PAGE >> 20),
            ureq::Error::Io(error) => PageError::Io(error),
            ureq::Error::ConnectionFailed => PageError::NobodyAnswers,
            other => PageError::Other(other),
        }
    }

    fn reason(&self, reason: PageError) -> Reason {
        let url = self.url.clone();
        Reason::Page { url, reason }
    }
}

/// A page, and when it was asked for and complete.
struct Scrape {
    page: Page,
    from_ns: u64,
    to_ns: u64,
}

impl Scrape {
    fn seconds_since(&self, earlier: u64) -> f64 {
        self.middle_ns().saturating_sub(earlier).max(1) as f64 / 1e9
    }

    fn middle_ns(&self) -> u64 {
        self.from_ns + (self.to_ns - self.from_ns) / 2
    }
}

pub(super) struct Prometheus {
    /// As it was asked for.
    name: String,
    context: Context,
    client: Client,
    selector: Selector,
    plan: Plan,
    /// Longest time one page took at the start.
    took: Duration,
    /// What a window must have at least.
    window: Duration,
    start: Option<(u64, Totals)>,
    /// Reads a level while a window is open.
    poller: Option<Poller>,
}

/// The address and the metric of `request`, before anything is started.
pub(super) fn check(request: &str) -> Result<()> {
    parts(request).map(|_| ())
}

fn parts(request: &str) -> Result<(String, Selector)> {
    select::split(request)
        .map_err(|error| Reason::Prometheus(error).wrong(&format!("prometheus:{request}")))
}

impl Prometheus {
    /// Waits until the page is there, and learns what the metric is and how fast
    /// it changes.
    pub(super) fn new(request: &str, context: Context, target: &mut Target) -> Result<Prometheus> {
        let (url, selector) = parts(request)?;
        let name = format!("prometheus:{request}");
        let client = Client::new(url, &context.options);
        let mut metric = Prometheus {
            client: client.map_err(|error| Reason::Prometheus(error).wrong(&name))?,
            name,
            context,
            selector,
            plan: Plan::Gauge,
            took: Duration::ZERO,
            window: Duration::ZERO,
            start: None,
            poller: None,
        };
        let first = metric.first(target)?;
        let kind = metric.context.options.kind;
        let plan = metric.selector.plan(&first.page, kind);
        metric.plan = plan.map_err(|reason| metric.wrong(reason))?;
        match metric.plan {
            Plan::Counter | Plan::Histogram(_) => metric.learn_pace(first, target)?,
            Plan::Gauge | Plan::Summary(_) => metric.start_polling(&first)?,
        }
        Ok(metric)
    }

    fn wrong(&self, reason: impl Into<Reason>) -> Error {
        reason.into().wrong(&self.name)
    }

    fn failed(&self, reason: impl Into<Reason>) -> Error {
        reason.into().failed(&self.name)
    }

    /// The first page; a server that is only starting gets its time.
    fn first(&mut self, target: &mut Target) -> Result<Scrape> {
        let deadline = Instant::now() + self.context.options.trial;
        loop {
            match self.try_scrape(target)? {
                Ok(scrape) => return Ok(scrape),
                Err(no) if no.may_pass() && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(no) if no.may_pass() => return Err(self.failed(self.client.reason(no))),
                Err(no) => return Err(self.wrong(self.client.reason(no))),
            }
        }
    }

    fn scrape(&mut self, target: &mut Target) -> Result<Scrape> {
        let scraped = self.try_scrape(target)?;
        scraped.map_err(|no| self.failed(self.client.reason(no)))
    }

    /// Fetches from another thread, so that the end of the target or an
    /// interruption is noticed while a server takes its time.
    fn try_scrape(&mut self, target: &mut Target) -> Result<Result<Scrape, PageError>> {
        let (sender, receiver) = mpsc::channel();
        let client = self.client.clone();
        let from_ns = monotonic_ns();
        let thread = std::thread::Builder::new().name("scrape".into());
        let spawned = thread.spawn(move || {
            let page = client.fetch();
            let _ = sender.send((page, monotonic_ns()));
        });
        spawned.map_err(|error| self.failed(Reason::Thread(error)))?;
        loop {
            match receiver.recv_timeout(Duration::from_millis(20)) {
                Ok((page, to_ns)) => {
                    if page.is_err() {
                        target.check_alive()?;
                    }
                    let scrape = page.map(|page| Scrape {
                        page,
                        from_ns,
                        to_ns,
                    });
                    return Ok(scrape);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    target.check_alive()?;
                    self.context.check_interrupt()?;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(self.failed(Reason::ScrapeThread));
                }
            }
        }
    }

    /// Watches totals until it is known how fast they grow and in which steps.
    fn learn_pace(&mut self, first: Scrape, target: &mut Target) -> Result<()> {
        let start = self.totals(&first)?;
        self.took = Duration::from_nanos(first.to_ns - first.from_ns);
        let begin = first.middle_ns();
        let (mut last, mut last_change, mut longest) = (start.clone(), begin, 0);
        let (mut changes, mut enough) = (0, false);
        let wanted = match self.plan {
            Plan::Histogram(quantile) => BEYOND / (1.0 - quantile.share()),
            _ => f64::from(pace::ENOUGH),
        };
        let (mut grown, mut seconds) = (0.0, 0.0);
        // Enough to know the steps, and for long enough to see some.
        while !enough && seconds < self.context.options.trial.as_secs_f64() {
            std::thread::sleep(self.interval());
            let now = self.scrape(target)?;
            self.took = self.took.max(Duration::from_nanos(now.to_ns - now.from_ns));
            let totals = self.totals(&now)?;
            if self.count(&last, &totals)? > 0.0 {
                if changes > 0 {
                    longest = longest.max(now.middle_ns() - last_change);
                }
                changes += 1;
                last_change = now.middle_ns();
            }
            seconds = now.seconds_since(begin);
            grown += self.count(&last, &totals)?;
            last = totals;
            enough = changes >= 3 && seconds >= 0.3 && (grown >= wanted || seconds >= 1.0);
        }
        if grown <= 0.0 {
            return Err(self.wrong(Reason::StoodStill(seconds)));
        }
        // Some servers renew their numbers only now and then.
        let step = Duration::from_nanos(longest);
        let steps = if step > 3 * self.interval() {
            4 * step
        } else {
            Duration::ZERO
        };
        let filled = Duration::try_from_secs_f64(wanted / (grown / seconds)).unwrap_or_default();
        self.window = (self.took * SHARE).max(steps).max(filled);
        Ok(())
    }

    fn start_polling(&mut self, first: &Scrape) -> Result<()> {
        let value = self.selector.value(&first.page, self.plan);
        value.map_err(|reason| self.wrong(reason))?;
        self.took = Duration::from_nanos(first.to_ns - first.from_ns);
        let (client, selector, plan) = (self.client.clone(), self.selector.clone(), self.plan);
        let interval = self.interval();
        let poller = Poller::start(
            &self.name,
            interval,
            Box::new(move |_| {
                let page = client.fetch().map_err(|no| client.reason(no))?;
                Ok(selector.value(&page, plan)?)
            }),
        )?;
        self.poller = Some(poller);
        self.window = (interval + self.took) * self.context.options.prints.max(1);
        Ok(())
    }

    /// Shortest time from one page to the next.
    fn interval(&self) -> Duration {
        self.context.options.probe_interval.max(self.took * SHARE)
    }

    fn totals(&self, scrape: &Scrape) -> Result<Totals> {
        let totals = self.selector.totals(&scrape.page, self.plan);
        totals.map_err(|reason| self.failed(reason))
    }

    /// Operations or observations between two pages.
    fn count(&self, from: &Totals, to: &Totals) -> Result<f64> {
        match self.plan {
            Plan::Histogram(wanted) => select::quantile(from, to, wanted)
                .map(|(count, _)| count)
                .map_err(|reason| self.wrong(reason)),
            _ => Ok(select::grown(from, to)),
        }
    }

    fn end_histogram(
        &mut self,
        from: &Totals,
        wanted: Percentile,
        target: &mut Target,
    ) -> Result<f64> {
        let fewest = FEWEST_BEYOND / (1.0 - wanted.share());
        let deadline = Instant::now() + self.context.options.print_timeout;
        loop {
            let now = self.scrape(target)?;
            let to = self.totals(&now)?;
            let found = select::quantile(from, &to, wanted);
            let (count, value) = found.map_err(|reason| self.wrong(reason))?;
            if count >= fewest {
                return oriented(value, Direction::Lower, &self.name);
            }
            if Instant::now() >= deadline {
                return Err(self.failed(Reason::FewObservations {
                    count,
                    limit: self.context.options.print_timeout,
                    percentile: wanted,
                    fewest,
                }));
            }
            std::thread::sleep(self.interval());
        }
    }

    fn kind(&self) -> StdoutKind {
        match self.plan {
            Plan::Counter => StdoutKind::Rate,
            _ => StdoutKind::Value,
        }
    }
}

impl Metric for Prometheus {
    fn facts(&self) -> MetricFacts {
        let (unit, direction) = match (self.plan, self.kind()) {
            (Plan::Histogram(_) | Plan::Summary(_), _) => ("as exposed", Direction::Lower),
            (_, StdoutKind::Rate) => ("as exposed, per second", self.context.options.direction),
            (_, StdoutKind::Value) => ("as exposed", self.context.options.direction),
        };
        facts(&self.name, unit, direction, &self.context.because)
    }

    fn natural_window(&self) -> Option<Duration> {
        Some(self.window)
    }

    fn window_rule(&self) -> String {
        match self.plan {
            Plan::Counter => format!(
                "growth between one page at each end of the window per second, resets taken as from 0; at least {} counts in a window",
                pace::ENOUGH
            ),
            Plan::Gauge => format!(
                "mean of the pages read within the window, at least {}",
                self.context.options.prints.max(1)
            ),
            Plan::Histogram(quantile) => format!(
                "{quantile} of what the buckets gained between the window's ends, interpolated within a bucket; {BEYOND:.0} observations beyond it wanted, {FEWEST_BEYOND:.0} needed"
            ),
            Plan::Summary(quantile) => format!(
                "{quantile} as the server computes it over a time of its own choosing, mean of at least {} pages; changes slower than the window may be missed",
                self.context.options.prints.max(1)
            ),
        }
    }

    fn resolution(&self) -> Resolution {
        Resolution::Print
    }

    fn cost(&self) -> String {
        let often = match self.plan {
            Plan::Counter | Plan::Histogram(_) => "one page at each end of a window".to_string(),
            _ => format!(
                "one page every {} ms while a window is open",
                self.interval().as_millis()
            ),
        };
        format!(
            "{often}, written by the server that shows it; one took at most {:.1} ms at the start",
            self.took.as_secs_f64() * 1e3
        )
    }

    fn warnings(&self) -> Vec<Warning> {
        match self.plan {
            Plan::Gauge => self.poller.iter().filter_map(Poller::warning).collect(),
            _ => Vec::new(),
        }
    }

    fn begin(&mut self, target: &mut Target) -> Result<()> {
        target.check_alive()?;
        if let Some(poller) = &self.poller {
            poller.open();
            self.start = Some((0, Totals::new()));
            return Ok(());
        }
        let scrape = self.scrape(target)?;
        self.start = Some((scrape.middle_ns(), self.totals(&scrape)?));
        Ok(())
    }

    fn end(&mut self, target: &mut Target) -> Result<f64> {
        let (since, from) = begun(&mut self.start, &self.name)?;
        match (self.plan, &self.poller) {
            (Plan::Histogram(wanted), _) => self.end_histogram(&from, wanted, target),
            (_, Some(poller)) => {
                let wanted = self.context.options.prints.max(1) as usize;
                let alive = &mut || target.check_alive();
                let readings = poller.finish(wanted, alive, &self.context, &self.name)?;
                let value = poller::summary(&readings, StdoutKind::Value, &self.name)?;
                oriented(value, self.facts().direction, &self.name)
            }
            (_, None) => {
                let now = self.scrape(target)?;
                let to = self.totals(&now)?;
                target.check_alive()?;
                let rate = select::grown(&from, &to) / now.seconds_since(since);
                oriented(rate, self.context.options.direction, &self.name)
            }
        }
    }
}
