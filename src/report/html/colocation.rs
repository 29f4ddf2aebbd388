//! What programs are expected to cost each other, two at a time.

use super::heat;
use super::heat::Cell;
use super::heat::Row;
use jostle_profile::Profile;
use jostle_schedule::App;
use jostle_schedule::predict::Basis;
use jostle_schedule::predict::Population;
use jostle_schedule::predict::Prediction;
use jostle_schedule::predict::Subject;
use jostle_schedule::predict::co_location;

/// Loss at which a cell is shaded fully.
const FULL_SHADE: f64 = 0.6;

/// Who keeps how much beside whom.
pub struct Matrix {
    pub names: Vec<String>,
    pub shares_cpus: bool,
    /// By program and neighbour; `None` where nothing is known.
    pub kept: Vec<Vec<Option<Kept>>>,
}

/// What a program keeps of its performance beside one neighbour.
pub struct Kept {
    pub performance: f64,
    pub ci95: [f64; 2],
    pub qos: f64,
    pub most_costly: Option<&'static str>,
}

/// Of programs with CPUs of their own, and of programs that time-share CPUs.
pub fn matrices(profiles: &[Profile], population: &Population) -> [Matrix; 2] {
    let apps = profiles.iter();
    let apps: Vec<App> = apps.map(|it| App::completed(it, population)).collect();
    [false, true].map(|shares_cpus| matrix(profiles, &apps, shares_cpus))
}

fn matrix(profiles: &[Profile], apps: &[App], shares_cpus: bool) -> Matrix {
    let subjects: Vec<Subject> = apps
        .iter()
        .zip(profiles)
        .map(|(app, profile)| Subject {
            name: app.name(),
            responses: &app.responses,
            counted: app.counted(shares_cpus),
            qos: profile.qos.threshold,
        })
        .collect();
    let mut kept: Vec<Vec<Option<Kept>>> = subjects.iter().map(|_| Vec::new()).collect();
    for one in 0..subjects.len() {
        for other in 0..=one {
            let [first, second] = pair(&subjects, one, other, shares_cpus);
            kept[one].push(first);
            if other < one {
                kept[other].push(second);
            }
        }
    }
    Matrix {
        names: apps.iter().map(|app| app.name().to_string()).collect(),
        shares_cpus,
        kept,
    }
}

fn pair(subjects: &[Subject], one: usize, other: usize, shares_cpus: bool) -> [Option<Kept>; 2] {
    let both = [subjects[one], subjects[other]];
    let mut predictions = co_location(&both, shares_cpus).into_iter();
    let mut next = || predictions.next().and_then(Kept::of);
    [next(), next()]
}

impl Kept {
    fn of(prediction: Prediction) -> Option<Kept> {
        if prediction.basis == Basis::None {
            return None;
        }
        Some(Kept {
            performance: prediction.performance?,
            ci95: prediction.ci95?,
            qos: prediction.qos,
            most_costly: prediction.most_costly,
        })
    }

    fn keeps_qos(&self) -> bool {
        self.performance >= self.qos
    }
}

impl Matrix {
    /// Pairs, and those of which both are expected to keep their QoS.
    pub fn pairs(&self) -> (usize, usize) {
        let count = self.names.len();
        let pairs = (0..count).flat_map(|one| (0..one).map(move |other| (one, other)));
        let well =
            |one: usize, other: usize| self.kept[one][other].as_ref().is_some_and(Kept::keeps_qos);
        let (mut all, mut good) = (0, 0);
        for (one, other) in pairs {
            all += 1;
            good += usize::from(well(one, other) && well(other, one));
        }
        (all, good)
    }

    /// Who loses the most beside whom.
    pub fn worst(&self) -> Option<(&str, &str, &Kept)> {
        let rows = self.names.iter().zip(&self.kept);
        let cells = rows.flat_map(|(name, row)| {
            let others = self.names.iter().zip(row);
            others.filter_map(move |(other, kept)| {
                Some((name.as_str(), other.as_str(), kept.as_ref()?))
            })
        });
        cells.min_by(|a, b| a.2.performance.total_cmp(&b.2.performance))
    }

    fn map(&self) -> String {
        let rows: Vec<Row> = self
            .kept
            .iter()
            .enumerate()
            .map(|(at, row)| Row {
                name: self.names[at].clone(),
                link: Some(format!("p{at}")),
                cells: row
                    .iter()
                    .enumerate()
                    .map(|(other, kept)| cell(kept.as_ref(), at == other))
                    .collect(),
            })
            .collect();
        let caption = match self.shares_cpus {
            true => {
                "Performance kept by the program of the row beside that of the column when they time-share CPUs, %"
            }
            false => {
                "Performance kept by the program of the row beside that of the column, each with CPUs of its own, %"
            }
        };
        heat::map(
            caption,
            &self.names,
            &rows,
            "Bold: below its QoS. Dashed: two instances of one program. Point at a cell, or walk with the arrow keys.",
        )
    }
}

fn cell(kept: Option<&Kept>, own: bool) -> Cell {
    let Some(kept) = kept else {
        return Cell {
            text: "–".into(),
            words: "no basis for a prediction".into(),
            shade: None,
            mark: "",
        };
    };
    let percent = |share: f64| format!("{:.0}", share * 100.0);
    let costly = kept
        .most_costly
        .map_or(String::new(), |id| format!("; costliest {id}"));
    Cell {
        text: percent(kept.performance),
        words: format!(
            "keeps {} % ({}–{}){costly}",
            percent(kept.performance),
            percent(kept.ci95[0]),
            percent(kept.ci95[1])
        ),
        shade: Some((1.0 - kept.performance).max(0.0) / FULL_SHADE),
        mark: match (kept.keeps_qos(), own) {
            (false, _) => "miss",
            (true, true) => "own",
            (true, false) => "",
        },
    }
}

/// Both maps, one of them shown.
pub fn section(matrices: &[Matrix; 2]) -> String {
    let [own, shared] = matrices;
    let maps = [
        ("CPUs of their own", own.map()),
        ("shared CPUs", shared.map()),
    ];
    format!(
        "<section aria-labelledby=\"beside\"><h2 id=\"beside\">Predicted co-location</h2>\n{}</section>\n",
        heat::panels("cpus", "With", &maps)
    )
}
