//! Recording within the limits that this process inherited (ulimit).

use crate::collect::session::{Options, Outcome, RecordError, Subject, record};
use crate::store::CreateError;
use nearfar_host::target::StartError;
use nearfar_host::target::inherited::too_little_to_record;

/// Why a limit of this process keeps it from recording the program, which could run all the same.
fn kept_off(error: &RecordError) -> Option<String> {
    let (error, limit) = match error {
        RecordError::Create(CreateError::Io { error, .. }) if error.raw_os_error() == Some(libc::EFBIG) => {
            (error, "file sizes are limited (ulimit -f)")
        }
        RecordError::Start(StartError::System(error)) if error.raw_os_error() == Some(libc::EAGAIN) => {
            (error, "processes are limited (ulimit -u)")
        }
        _ => return None,
    };
    Some(format!("{limit}: {error}"))
}

/// Records, or says why this process's limits do not allow it.
///
/// # Errors
/// As [`record`], except for what the limits forbid.
pub fn record_within_limits(
    subject: &Subject,
    options: &Options,
) -> Result<Result<Outcome, String>, RecordError> {
    match too_little_to_record() {
        Some(why) => Ok(Err(why)),
        None => match record(subject, options) {
            Err(error) => Ok(Err(kept_off(&error).ok_or(error)?)),
            Ok(outcome) => Ok(Ok(outcome)),
        },
    }
}
