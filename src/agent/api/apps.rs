//! Profiles in the form that predictions read.

use jostle_profile::Profile;
use jostle_schedule::App;
use jostle_schedule::predict::Population;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

/// Profiles of the store as [`App`]s: making one takes longer than a prediction.
#[derive(Default)]
pub struct Apps(Mutex<BTreeMap<String, Made>>);

/// An application, and the profile that it was made of.
type Made = (Arc<Profile>, Arc<App>);

impl Apps {
    pub fn of(&self, name: &str, profile: Arc<Profile>) -> Arc<App> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((from, app)) = known.get(name)
            && Arc::ptr_eq(from, &profile)
        {
            return app.clone();
        }
        let app = Arc::new(app(&profile));
        known.insert(name.into(), (profile, app.clone()));
        app
    }

    /// Forgets what the store has no longer.
    pub fn keep(&self, names: &[String]) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| names.binary_search(name).is_ok());
    }
}

pub fn app(profile: &Profile) -> App {
    App::completed(profile, Population::bundled())
}
