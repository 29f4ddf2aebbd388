//! What takes the place of the API where jostle was built without it.

use crate::agent::board::Board;
use crate::agent::config::ApiSection;
use crate::agent::store::Store;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use std::net::SocketAddr;
use std::sync::Arc;

/// An API that is not there.
pub struct ApiHandle(());

/// # Errors
/// Where TCP is configured.
pub fn serve(config: &ApiSection, _: Arc<Board>, _: Arc<Store>) -> Result<ApiHandle> {
    if let Some(address) = &config.tcp {
        return Err(Error::request(format!(
            "api.tcp = \"{address}\": this jostle was built without the API; build it with the \
             feature `server`, or remove the key"
        )));
    }
    if !config.socket.as_os_str().is_empty() {
        let socket = config.socket.display();
        tracing::warn!("{socket} is not served: this jostle was built without the API");
    }
    Ok(ApiHandle(()))
}

impl ApiHandle {
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        None
    }

    pub fn stop(self) {}
}
