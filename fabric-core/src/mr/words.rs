//! SETUP. Refusals of remote memory, in words.

use std::ffi::CStr;

use crate::Errno;

/// What the target's answer to an access means, where there is more to say than the system does.
pub fn words(err: Errno) -> Option<&'static CStr> {
    Some(match err {
        Errno::ENOKEY => {
            c"Required key not available: the peer has no region of this key, or has closed it"
        }
        Errno::EACCES => {
            c"Permission denied: the peer's region was registered without FI_REMOTE_READ or \
              FI_REMOTE_WRITE"
        }
        _ => return None,
    })
}
