//! Commands around a measurement, from flags.

use super::duration::parse_duration;
use jostle_measure::workload::hooks::Hooks;
use jostle_measure::workload::hooks::WarmUp;
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(
    next_help_heading = "Hooks (shell commands; JOSTLE_TARGET_PID names the target where it is known)"
)]
pub struct HookArgs {
    /// Run before the target starts; must succeed
    #[arg(long, value_name = "CMD")]
    setup: Option<String>,
    /// After the target started and before its performance is read: a time to
    /// wait, like 5s, or a command to run
    #[arg(long, value_name = "TIME|CMD")]
    warmup: Option<String>,
    /// Run at the end, after a failure or Ctrl-C too, and when jostle itself
    /// was killed; its failure is a warning
    #[arg(long, value_name = "CMD")]
    teardown: Option<String>,
    /// Longest each of these commands may take
    #[arg(long, value_parser = parse_duration, default_value = "120s", value_name = "TIME")]
    hook_timeout: Duration,
}

impl HookArgs {
    pub fn hooks(&self, show_output: bool) -> Hooks {
        Hooks {
            setup: self.setup.clone(),
            warm_up: self.warmup.as_ref().map(|text| match parse_duration(text) {
                Ok(time) => WarmUp::Wait(time),
                Err(_) => WarmUp::Run(text.clone()),
            }),
            teardown: self.teardown.clone(),
            limit: self.hook_timeout,
            show_output,
        }
    }
}
