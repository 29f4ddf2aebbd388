//! Pages for a browser: one file each that fetches nothing, for light, dark and paper.

mod colocation;
mod export;
mod heat;
mod overview;
mod plot;
mod profile;
pub(super) mod sheet;
mod simulation;
mod validation;

pub use colocation::Matrix;
pub use colocation::matrices;
pub use export::matrix_svg;
pub use export::vector_svg;
pub use simulation::Simulation;

use jostle_measure::validate::Validation;
use jostle_profile::Profile;

/// A page shows pairs of up to so many profiles: beyond, neither a reader nor a
/// browser makes anything of the map.
pub const MOST_PAIRED: usize = 100;

/// What a page is about.
#[derive(Default)]
pub struct Subjects {
    pub profiles: Vec<Profile>,
    pub validations: Vec<Validation>,
    pub simulations: Vec<Simulation>,
}

impl Subjects {
    pub fn len(&self) -> usize {
        self.profiles.len() + self.validations.len() + self.simulations.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The page of all `subjects`; `matrices` are those of its profiles, where there are
/// several.
pub fn report(subjects: &Subjects, matrices: Option<&[Matrix; 2]>) -> String {
    let (profiles, only) = (&subjects.profiles, subjects.len() == 1);
    if only {
        return alone(subjects);
    }
    let mut body = String::new();
    let mut lead = String::new();
    if profiles.len() > 1 {
        lead = sheet::paragraph("lead", &overview::conclusion(profiles, matrices).join(" "));
        body += &overview::section(profiles);
        body += &match matrices {
            Some(matrices) => colocation::section(matrices),
            None => overview::too_many(MOST_PAIRED),
        };
    }
    if !profiles.is_empty() {
        body += &tools(profiles.len());
    }
    for (at, profile) in profiles.iter().enumerate() {
        body += &profile::section(profile, &format!("p{at}"));
    }
    for (at, validation) in subjects.validations.iter().enumerate() {
        let title = format!("Validation of {}", validation.machine.model);
        body += &section(
            &format!("v{at}"),
            &title,
            &validation::content(validation, 3),
        );
    }
    for (at, simulation) in subjects.simulations.iter().enumerate() {
        let title = format!("Simulation {}", simulation.name);
        body += &section(&format!("s{at}"), &title, &simulation.content(3));
    }
    let title = match (profiles.len(), subjects.len() - profiles.len()) {
        (0, others) => format!("{others} reports"),
        (1, _) => format!("Sensitivity of {} and more", profiles[0].workload.name),
        (many, _) => format!("Sensitivity of {many} programs"),
    };
    sheet::document(&title, &lead, &body)
}

/// The page of one thing: its name is the title.
fn alone(subjects: &Subjects) -> String {
    if let Some(profile) = subjects.profiles.first() {
        let body = profile::content(profile);
        let title = format!("Sensitivity of {}", profile.workload.name);
        return sheet::document(&title, "", &format!("<div>{body}</div>"));
    }
    if let Some(simulation) = subjects.simulations.first() {
        let title = format!("Simulation {}", simulation.name);
        return sheet::document(&title, "", &format!("<div>{}</div>", simulation.content(2)));
    }
    subjects
        .validations
        .first()
        .map_or(String::new(), validation_page)
}

/// The page of `jostle validate --html`.
pub fn validation_page(validation: &Validation) -> String {
    let title = format!(
        "Validation of the sources of interference on {}",
        validation.machine.model
    );
    let body = validation::content(validation, 2);
    sheet::document(&title, "", &format!("<div>{body}</div>"))
}

fn section(id: &str, title: &str, content: &str) -> String {
    format!(
        "<section aria-labelledby=\"{id}\"><h2 id=\"{id}\">{}</h2>\n{content}</section>\n",
        sheet::escaped(title)
    )
}

/// Fewer can be looked through without a filter.
const FEW: usize = 8;

/// For a browser that runs the script; hidden in others.
fn tools(profiles: usize) -> String {
    let filter = match profiles > FEW {
        true => {
            "<label>Filter <input type=\"search\" aria-label=\"Filter by name\"></label><output></output>"
        }
        false => "",
    };
    format!(
        "<div class=\"tools\" hidden><button type=\"button\" aria-pressed=\"false\">Open all \
         details</button>{filter}</div>\n"
    )
}

#[cfg(test)]
mod tests;
