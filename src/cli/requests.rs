//! What HTTP requests of a load ask for, and whose certificates it believes: flags that
//! `load` and `profile` share.

use jostle_load::HttpRequest;
use jostle_load::LoadSpec;
use jostle_load::Url;
use jostle_load::parse_header;
use jostle_load::parse_mix;
use jostle_measure::error::Error;
use jostle_measure::error::Result;
use jostle_profile::regular::read;
use jostle_profile::regular::read_text;
use std::path::Path;
use std::path::PathBuf;

/// Largest file of requests, and largest body, bytes.
const LARGEST: u64 = 16 << 20;

#[derive(Clone, Debug, clap::Args)]
pub struct RequestArgs {
    /// HTTP method [default: GET, with --body POST]
    #[arg(long, value_name = "METHOD", requires = "load", conflicts_with = "mix")]
    method: Option<String>,
    /// HTTP header, like 'Accept: text/html'; may be repeated
    #[arg(
        long = "header",
        value_name = "HEADER",
        requires = "load",
        conflicts_with = "mix"
    )]
    headers: Vec<String>,
    /// Body of each HTTP request, or @FILE that holds it; {key} in it stands for a
    /// number
    #[arg(
        long,
        value_name = "TEXT|@FILE",
        requires = "load",
        conflicts_with = "mix"
    )]
    body: Option<String>,
    /// TOML file with several HTTP requests and how often each is sent (see
    /// scripts/patterns/requests.toml)
    #[arg(long, value_name = "FILE", requires = "load")]
    mix: Option<PathBuf>,
    /// A new HTTP connection for each request
    #[arg(long, requires = "load")]
    no_keep_alive: bool,
    /// HTTP/2, with --pipeline requests at once on each connection
    #[arg(long, requires = "load", conflicts_with = "no_keep_alive")]
    http2: bool,
    /// PEM file of the certificate authorities to believe [default: those of the system]
    #[arg(
        long,
        value_name = "FILE",
        requires = "load",
        conflicts_with = "tls_insecure"
    )]
    tls_ca: Option<PathBuf>,
    /// Believe every certificate
    #[arg(long, requires = "load")]
    tls_insecure: bool,
}

impl RequestArgs {
    /// Puts what was asked for into `spec`.
    pub fn apply(&self, spec: &mut LoadSpec) -> Result<()> {
        self.refuse_without_effect(&spec.url)?;
        spec.keep_alive = !self.no_keep_alive;
        spec.http2 = self.http2;
        spec.tls.ca.clone_from(&self.tls_ca);
        spec.tls.insecure = self.tls_insecure;
        if let Some(file) = &self.mix {
            if spec.url.path != "/" {
                return Err(Error::request(format!(
                    "--mix: the paths are in {}; leave '{}' out of the URL",
                    file.display(),
                    spec.url.path
                )));
            }
            let wrong = |problem: &dyn std::fmt::Display| {
                Error::request(format!("--mix {}: {problem}", file.display()))
            };
            let text = read_text(file, LARGEST).map_err(|error| wrong(&error))?;
            spec.requests = parse_mix(&text).map_err(|error| wrong(&error))?;
            return Ok(());
        }
        let Some(request) = spec.requests.first_mut() else {
            return Ok(());
        };
        if let Some(body) = &self.body {
            request.method = "POST".into();
            request.body = match body.strip_prefix('@') {
                None => body.clone().into_bytes(),
                Some(file) => read(Path::new(file), LARGEST)
                    .map_err(|error| Error::request(format!("--body {body}: {error}")))?,
            };
        }
        if let Some(method) = &self.method {
            request.method.clone_from(method);
        }
        for text in &self.headers {
            let header = parse_header(text);
            let header = header.map_err(|error| Error::request(format!("--header: {error}")))?;
            request.headers.push(header);
        }
        let checked = HttpRequest::check(request);
        checked.map_err(|error| Error::request(format!("--method: {error}")))
    }

    /// A flag that would do nothing is a misunderstanding.
    fn refuse_without_effect(&self, url: &Url) -> Result<()> {
        let http =
            (!url.kind.is_http()).then_some("this is for http:// and https:// alone; leave it out");
        let tls = (!url.tls).then_some(
            "no TLS is spoken with this URL; write https:// or rediss://, or leave it out",
        );
        for (flag, given, reason) in [
            ("--method", self.method.is_some(), http),
            ("--header", !self.headers.is_empty(), http),
            ("--body", self.body.is_some(), http),
            ("--mix", self.mix.is_some(), http),
            ("--no-keep-alive", self.no_keep_alive, http),
            ("--http2", self.http2, http),
            ("--tls-ca", self.tls_ca.is_some(), tls),
            ("--tls-insecure", self.tls_insecure, tls),
        ] {
            if let Some(reason) = reason.filter(|_| given) {
                return Err(Error::request(format!("{flag}: {reason}")));
            }
        }
        Ok(())
    }
}
