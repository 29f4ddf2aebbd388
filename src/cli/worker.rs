//! `jostle worker`: a source of interference; started by jostle itself.

use crate::error::Error;
use crate::error::Result;
use crate::inject::worker::WorkerConfig;
use crate::inject::worker::serve;
use crate::sys::control_page::ControlPage;
use crate::sys::shared::SharedPage;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Descriptor of the control page, inherited from the profiler
    #[arg(long)]
    fd: i32,
    /// What to press on and how, as JSON
    #[arg(long)]
    config: String,
}

pub fn run(args: Args) -> Result<()> {
    let config: WorkerConfig = serde_json::from_str(&args.config)
        .map_err(|error| Error::request(format!("--config: {error}")))?;
    let page: SharedPage<ControlPage> = crate::sys::process::inherited(args.fd)
        .and_then(SharedPage::from_fd)
        .map_err(|error| {
            Error::request(format!(
                "--fd {}: not a control page ({error}); workers are started by jostle itself",
                args.fd
            ))
        })?;
    Err(Error::environment(serve(&config, &page).0))
}
