//! The driver's errors for what goes wrong in a launcher, a proxy or a stream.

use std::io;
use std::path::PathBuf;

use ringfence_gate::DriverError;
use ringfence_proxy::ProxyError;
use ringfence_types::LayerReport;
use rustix::io::Errno;

use crate::hints;
use crate::io::StreamError;
use crate::launcher::{Fault, FaultKind};

/// The error of a failed step, with what to do about it.
pub(crate) fn fault_error(fault: Fault, layers: LayerReport, program: PathBuf) -> DriverError {
    let source = io::Error::from_raw_os_error(fault.errno);
    match fault.kind {
        FaultKind::NotFound => DriverError::NotFound(program),
        FaultKind::NotExecutable => DriverError::NotExecutable { program, source },
        FaultKind::Required(name, status) => {
            DriverError::RequiredLayer { name, status, detail: fault.subject.unwrap_or_default() }
        }
        FaultKind::Changed => DriverError::Launch {
            step: fault.step,
            hint: Some("the path changed after it was checked; run the command again".to_owned()),
            subject: fault.subject,
            source,
            layers,
        },
        FaultKind::Failed => DriverError::Launch {
            hint: hints::of(&fault),
            step: fault.step,
            subject: fault.subject,
            source,
            layers,
        },
    }
}

/// The system's answer behind a proxy that could not be started.
pub(crate) fn proxy_errno(error: &ProxyError) -> Errno {
    let (ProxyError::Listener(source) | ProxyError::Runtime(source) | ProxyError::Thread(source)) = error;
    Errno::from_io_error(source).unwrap_or(Errno::IO)
}

pub(crate) fn stream_error(error: StreamError) -> DriverError {
    DriverError::Io { action: "drive the standard streams", source: io::Error::other(error) }
}
