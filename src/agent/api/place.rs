//! `/v1/predict` and `/v1/place`: what would happen if a program joined.

use super::apps;
use super::expect;
use super::expect::Expected;
use super::expect::LeftOut;
use super::expect::Member;
use super::profiles::named;
use super::query;
use super::shared::Shared;
use crate::agent::board::Published;
use crate::http::answer::Answer;
use crate::http::answer::Problem;
use crate::http::answer::json;
use axum::body::Body;
use axum::extract::RawQuery;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header;
use jostle_profile as profile;
use jostle_profile::Profile;
use jostle_profile::reading::Reading;
use jostle_schedule::predict::lane;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest body of a request, bytes.
pub const MOST_BODY_BYTES: usize = 1 << 20;

/// What is expected of everybody.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Forecast {
    node: String,
    recorded_at: String,
    /// Whether programs are taken to share CPUs.
    shares_cpus: bool,
    /// Absent where nobody was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    newcomer: Option<Expected>,
    residents: Vec<Expected>,
    /// Residents without a profile: nothing is predicted of them, and what they cost
    /// others is not included.
    left_out: Vec<LeftOut>,
}

/// Whether a program fits on the node.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Placement {
    /// Whether everybody with a profile is expected to keep its QoS, and CPU and
    /// memory suffice where the profile says what is needed; or why that is unknown.
    fits: Reading<bool>,
    /// Why not, in words; empty where it fits.
    reasons: Vec<String>,
    /// Resources of which there would be too little.
    short: Vec<Short>,
    /// By resource id: pressure that a newcomer may cause before the first resident
    /// misses its QoS.
    headroom: BTreeMap<String, Reading<f64>>,
    cpus: Need,
    memory_bytes: Need,
    #[serde(flatten)]
    forecast: Forecast,
}

/// A resource of which there would be too little.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Short {
    resource: String,
    /// Pressure that the newcomer causes, 0 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    caused: Option<f64>,
    /// Pressure that a newcomer may cause before a resident misses its QoS.
    #[serde(skip_serializing_if = "Option::is_none")]
    headroom: Option<f64>,
    /// Pressure that the newcomer tolerates.
    #[serde(skip_serializing_if = "Option::is_none")]
    tolerated: Option<f64>,
    /// Pressure that the residents cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pressure: Option<f64>,
}

/// What a program needs, and what is free.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Need {
    /// What its profile says that it used.
    needed: Reading<f64>,
    free: Reading<f64>,
}

pub async fn predict(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Answer {
    let query = query.as_deref();
    let shares_cpus = query::flag(query, "shares_cpus")?;
    let profile = match query::value(query, "profile") {
        Some(name) => Some((named(&shared, &name)?, name)),
        None => None,
    };
    computed(move || {
        let published = shared.node()?;
        let newcomer = profile.map(|(profile, name)| stored(&shared, name, profile));
        Ok(json(&forecast(&shared, &published, newcomer, shares_cpus)))
    })
    .await
}

pub async fn place_named(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Answer {
    let query = query.as_deref();
    let shares_cpus = query::flag(query, "shares_cpus")?;
    let Some(name) = query::value(query, "profile") else {
        let problem = "name a profile of the store (?profile=NAME), or POST a profile document";
        return Err(Problem::bad_request(problem));
    };
    let profile = named(&shared, &name)?;
    computed(move || {
        let newcomer = stored(&shared, name, profile.clone());
        place(&shared, newcomer, &profile, shares_cpus)
    })
    .await
}

pub async fn place_posted(
    State(shared): State<Arc<Shared>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Body,
) -> Answer {
    let shares_cpus = query::flag(query.as_deref(), "shares_cpus")?;
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok());
    let media = content_type.and_then(|value| value.split(';').next());
    if !media.is_some_and(|it| it.trim().eq_ignore_ascii_case("application/json")) {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send a profile document as Content-Type: application/json",
        ));
    }
    let bytes = axum::body::to_bytes(body, MOST_BODY_BYTES).await;
    let bytes = bytes.map_err(|error| unread(&error))?;
    computed(move || {
        if bytes.is_empty() {
            return Err(Problem::bad_request(
                "the body is empty; send a profile document",
            ));
        }
        let profile =
            profile::parse(&bytes).map_err(|error| Problem::bad_request(error.to_string()))?;
        profile::check(&profile).map_err(|error| Problem::bad_request(error.to_string()))?;
        let newcomer = Member {
            name: profile.workload.name.clone(),
            app: Arc::new(apps::app(&profile)),
            qos: profile.qos.threshold,
        };
        place(&shared, newcomer, &profile, shares_cpus)
    })
    .await
}

fn unread(error: &axum::Error) -> Problem {
    let source = std::error::Error::source(error);
    if source.is_some_and(|it| it.is::<http_body_util::LengthLimitError>()) {
        return too_large();
    }
    Problem::bad_request("the body ended early")
}

pub fn too_large() -> Problem {
    let problem = format!("the body is larger than {MOST_BODY_BYTES} bytes");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, problem)
}

/// Runs `work` on another thread, so that other requests do not wait for it.
async fn computed(work: impl FnOnce() -> Answer + Send + 'static) -> Answer {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| {
        let problem = "the computation failed; see the log of the agent";
        Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, problem))
    })
}

fn stored(shared: &Shared, name: String, profile: Arc<Profile>) -> Member {
    Member {
        qos: profile.qos.threshold,
        app: shared.apps.of(&name, profile),
        name,
    }
}

fn forecast(
    shared: &Shared,
    published: &Published,
    newcomer: Option<Member>,
    shares_cpus: bool,
) -> Forecast {
    let (mut members, left_out) = expect::residents(shared, published);
    let before = expect::together(&members, shares_cpus);
    let joins = newcomer.is_some();
    members.extend(newcomer);
    let mut residents = match joins {
        true => expect::together(&members, shares_cpus),
        false => before.clone(),
    };
    let newcomer = residents.pop_if(|_| joins);
    if joins {
        for (with, without) in residents.iter_mut().zip(before) {
            with.performance_without = Some(without.performance);
        }
    }
    Forecast {
        node: published.state.name.clone(),
        recorded_at: published.state.recorded_at.clone(),
        shares_cpus,
        newcomer,
        residents,
        left_out,
    }
}

fn place(shared: &Shared, newcomer: Member, profile: &Profile, shares_cpus: bool) -> Answer {
    let published = shared.node()?;
    let short = short(&published, &newcomer, shares_cpus);
    let forecast = forecast(shared, &published, Some(newcomer), shares_cpus);
    let load = &published.state.load;
    let total = published.state.machine.cpus as f64;
    let cpus = Need {
        needed: used(profile, "cpu"),
        free: load
            .cpu_percent
            .clone()
            .map(|it| (total - it / 100.0).max(0.0)),
    };
    let memory_bytes = Need {
        needed: used(profile, "resident"),
        free: load.memory_available_bytes.clone().map(|it| it as f64),
    };
    let mut reasons = Vec::new();
    let mut unknown = None;
    for one in forecast.newcomer.iter().chain(&forecast.residents) {
        match &one.performance {
            Reading::Unavailable { unavailable } => {
                unknown.get_or_insert_with(|| format!("{}: {unavailable}", one.name));
            }
            Reading::Value(expected) if expected.value < one.qos_threshold => {
                reasons.push(missed(one, expected.value));
            }
            Reading::Value(_) => {}
        }
    }
    let needs = [("CPUs", &cpus, 1.0), ("MiB of memory", &memory_bytes, MIB)];
    for (what, need, unit) in needs {
        if let (Some(needed), Some(free)) = (need.needed.value(), need.free.value())
            && needed > free
        {
            let (needed, free) = (needed / unit, free / unit);
            reasons.push(format!("it needs {needed:.1} {what}, {free:.1} are free"));
        }
    }
    let fits = match (reasons.is_empty(), unknown) {
        (false, _) => Reading::Value(false),
        (true, Some(unknown)) => Reading::unavailable(unknown),
        (true, None) => Reading::Value(true),
    };
    Ok(json(&Placement {
        fits,
        reasons,
        short,
        headroom: headroom(&published),
        cpus,
        memory_bytes,
        forecast,
    }))
}

const MIB: f64 = 1_048_576.0;

fn missed(one: &Expected, performance: f64) -> String {
    let (name, qos) = (&one.name, one.qos_threshold * 100.0);
    let expected = performance * 100.0;
    let resource = one.costliest_resource.as_deref();
    let by = resource.map_or_else(String::new, |resource| {
        format!(", most of it on {resource}")
    });
    format!(
        "{name} is expected to keep {expected:.0} % of its performance and must keep {qos:.0} %{by}"
    )
}

fn headroom(published: &Published) -> BTreeMap<String, Reading<f64>> {
    let resources = published.state.resources.iter();
    resources
        .map(|(id, resource)| (id.clone(), resource.headroom.clone()))
        .collect()
}

/// Resources on which the newcomer causes more than the residents tolerate, or they
/// more than it does.
fn short(published: &Published, newcomer: &Member, shares_cpus: bool) -> Vec<Short> {
    let app = &newcomer.app;
    let points = |known: bool, steps: i32| known.then(|| jostle_schedule::to_points(steps));
    let on = |(id, resource): (&String, &jostle_profile::node::NodeResource)| {
        let lane = lane(id)?;
        let caused = points(app.caused_on(shares_cpus).contains(lane), app.caused[lane]);
        let tolerated = points(
            app.tolerated_on(shares_cpus).contains(lane),
            app.tolerated[lane],
        );
        let headroom = resource.headroom.value().copied();
        let pressure = resource.caused.value().copied();
        let over = |more: Option<f64>, less: Option<f64>| matches!((more, less), (Some(more), Some(less)) if more > less && more > 0.0);
        (over(caused, headroom) || over(pressure, tolerated)).then(|| Short {
            resource: id.clone(),
            caused,
            headroom,
            tolerated,
            pressure,
        })
    };
    published.state.resources.iter().filter_map(on).collect()
}

/// What `profile` says of one quantity, where that is of the program itself.
fn used(profile: &Profile, quantity: &str) -> Reading<f64> {
    let missing = || Reading::unavailable("its profile does not say what it uses");
    let used = profile.usage.as_ref();
    let used = used.and_then(|usage| usage.quantities.get(quantity));
    used.map_or_else(missing, |it| it.clone().map(|it| it.value))
}
