//! `jostle slurm`: Slurm asks through a submit plugin, and pending jobs are moved as
//! the cluster changes.

mod board;
mod change;
mod commands;
mod harm;
mod hosts;
mod note;
mod planner;
mod question;
mod queue;
mod steer;
mod tasks;
mod world;

pub use steer::Helper;
pub use steer::Options;
pub use steer::release;

/// The Lua that Slurm loads, with the path of the socket filled in.
pub fn plugin(socket: &str) -> String {
    // The path stands between quotes.
    let quoted = socket.replace('\\', "\\\\").replace('"', "\\\"");
    include_str!("../../../deploy/slurm/job_submit.lua").replace("/run/jostle/slurm.sock", &quoted)
}
