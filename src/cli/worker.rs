//! `jostle worker`: sources of interference; started by jostle itself.

use jostle_host::inject::host::serve;
use jostle_host::inject::parent;
use jostle_host::inject::worker::WorkerConfig;
use jostle_host::sys::control_page::ControlPage;
use jostle_host::sys::handover::Taker;
use jostle_host::sys::process::inherited;
use jostle_host::sys::shared::Shared;
use jostle_host::sys::shared::SharedPage;
use jostle_host::sys::tape::Tape;
use jostle_measure::error::Error;
use jostle_measure::error::Result;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Descriptor of the tape, inherited from the profiler
    #[arg(long)]
    tape: i32,
    /// Descriptor of the socket through which the target's counts come
    #[arg(long)]
    handover: i32,
    /// Descriptor of the control page of each source
    #[arg(long, required = true)]
    fd: Vec<i32>,
    /// What each source is to press on and how, as JSON
    #[arg(long)]
    config: String,
}

pub fn run(args: Args) -> Result<()> {
    let configs: Vec<WorkerConfig> = serde_json::from_str(&args.config)
        .map_err(|error| Error::request(format!("--config: {error}")))?;
    let tape: SharedPage<Tape> = shared("--tape", args.tape)?;
    let pages = args
        .fd
        .iter()
        .map(|fd| shared("--fd", *fd))
        .collect::<Result<Vec<SharedPage<ControlPage>>>>()?;
    if pages.len() != configs.len() {
        return Err(Error::request(format!(
            "--fd was given {} times, --config names {} sources",
            pages.len(),
            configs.len()
        )));
    }
    let taker = Taker::inherited(args.handover).map_err(|error| {
        Error::request(format!(
            "--handover {}: {error}; workers are started by jostle itself",
            args.handover
        ))
    })?;
    parent::watch(&pages)
        .map_err(|error| Error::environment(format!("cannot watch the profiler: {error}")))?;
    Err(Error::environment(serve(&configs, &pages, &tape, &taker).0))
}

fn shared<T: Shared>(flag: &str, fd: i32) -> Result<SharedPage<T>> {
    inherited(fd).and_then(SharedPage::from_fd).map_err(|error| {
        Error::request(format!(
            "{flag} {fd}: not a page of jostle's ({error}); workers are started by jostle itself"
        ))
    })
}
