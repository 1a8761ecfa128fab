//! The dashboard of a run, served by this process.

use crate::data::Closable;
use crate::error::Raise;
use crate::gate::Gate;
use phalanx_base::{Code, Error};
use phalanx_run::Runs;
use pyo3::prelude::*;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The dashboard of a run directory, or of a folder of runs, as `phalanx dashboard` serves it. A notebook shows its address as a
/// link.
#[pyclass(frozen, module = "phalanx")]
pub(crate) struct Dashboard {
    url: String,
    run: PathBuf,
    served: Closable<phalanx_dashboard::Dashboard>,
}

#[pymethods]
impl Dashboard {
    /// Serves the dashboard of `run` until it is closed or dropped. `listen` is an address; port 0 is any free port.
    #[new]
    #[pyo3(signature = (run, listen="127.0.0.1:0"))]
    fn new(py: Python<'_>, run: PathBuf, listen: &str) -> PyResult<Self> {
        let address = listen.parse::<SocketAddr>().map_err(|error| {
            let wrong = Error::new(Code::BadSetting, format!("{listen:?} is no address")).because(error);
            wrong.help("give an address and a port, such as 127.0.0.1:0")
        });
        let (address, of) = (address.or_raise(py)?, run.clone());
        let served = Gate::new().enter(py, move || {
            let runs = Runs::find(of)?;
            phalanx_dashboard::Dashboard::of(runs, address)
        })?;
        Ok(Self { url: served.url().to_owned(), run, served: Closable::new(served) })
    }

    /// The address, with the token that requests need.
    #[getter]
    fn url(&self) -> &str {
        &self.url
    }

    /// Ends the server.
    fn close(&self) {
        self.served.close();
    }

    fn _repr_html_(&self) -> String {
        let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        let (url, run) = (escaped(&self.url), escaped(&self.run.display().to_string()));
        format!("<a href=\"{url}\" target=\"_blank\">Dashboard of {run}</a>")
    }

    fn __repr__(&self) -> String {
        format!("<phalanx.Dashboard of {} at {}>", self.run.display(), self.url)
    }
}

/// Adds the class to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Dashboard>()
}
