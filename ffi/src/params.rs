//! SETUP. Configuration variables: `fi_getparams` and what providers of others define and read.

use core::ffi::{c_char, c_int, c_void};

use fabric_core::{
    Errno, Result,
    param::{self, Kind, Listed, Value},
};

use crate::{
    abi::{Plain, attr::fi_param, constants::fi_param_type, ext::fi_provider},
    info::memory,
    panic::status,
    text,
};

/// `fi_getparams`. The list ends with a null name behind the `count` variables.
///
/// # Safety
/// Both pointers have room for their value or are null.
pub(crate) unsafe fn list(params: *mut *mut fi_param, count: *mut c_int) -> c_int {
    if params.is_null() || count.is_null() {
        return -Errno::EINVAL.get();
    }
    let all = param::list();
    status(c_int::try_from(all.len()).map_err(|_| Errno::EOVERFLOW).and_then(|n| {
        let list = write_list(&all)?;
        // SAFETY: the caller gives room for a pointer.
        unsafe { params.write(list) };
        // SAFETY: the caller gives room for a number.
        unsafe { count.write(n) };
        Ok(())
    }))
}

/// `fi_freeparams`.
///
/// # Safety
/// `params` is a list from [`list`], not yet freed, or null.
pub(crate) unsafe fn free(params: *mut fi_param) {
    if params.is_null() {
        return;
    }
    let mut next = params;
    // SAFETY: the list ends with a null name.
    while let param = unsafe { next.read() }
        && !param.name.is_null()
    {
        for text in [param.name, param.help_string, param.value] {
            // SAFETY: each text is null or an allocation of its own.
            unsafe { libc::free(text.cast_mut().cast()) };
        }
        // SAFETY: the end has not been reached.
        next = unsafe { next.add(1) };
    }
    // SAFETY: the list is one allocation.
    unsafe { libc::free(params.cast()) };
}

fn write_list(all: &[Listed]) -> Result<*mut fi_param> {
    // SAFETY: `calloc` checks the product.
    let list = unsafe { libc::calloc(all.len() + 1, size_of::<fi_param>()) }.cast::<fi_param>();
    if list.is_null() {
        return Err(Errno::ENOMEM);
    }
    for (index, listed) in all.iter().enumerate() {
        // SAFETY: the memory is fresh, zeroed, private, and longer than `all`.
        let filled = fill(unsafe { &mut *list.add(index) }, listed);
        if let Err(errno) = filled {
            // SAFETY: what has not been filled ends the list.
            unsafe { free(list) };
            return Err(errno);
        }
    }
    Ok(list)
}

/// Fills an entry. The name comes first: an entry without one is the end of the list.
fn fill(raw: &mut fi_param, listed: &Listed) -> Result<()> {
    *raw = fi_param { r#type: listed.kind as fi_param_type, ..fi_param::zeroed() };
    raw.name = memory::text(Some(&listed.name))?;
    raw.help_string = memory::text(Some(&listed.help))?;
    raw.value = memory::text(listed.value.as_deref())?;
    Ok(())
}

/// `fi_param_define`, with the help text formatted.
///
/// # Safety
/// `provider` is null or a provider; texts are terminated or null.
pub(crate) unsafe fn define(
    provider: *const fi_provider,
    name: *const c_char,
    datatype: fi_param_type,
    help: *const c_char,
) -> c_int {
    if provider.is_null() {
        return -Errno::EINVAL.get();
    }
    let define = || {
        // SAFETY: the caller's promise.
        let provider = unsafe { provider_name(provider) }?;
        // SAFETY: the caller's promise.
        let name = unsafe { text::read(name) }?.ok_or(Errno::EINVAL)?;
        // SAFETY: the caller's promise.
        let help = unsafe { text::read(help) }?.ok_or(Errno::EINVAL)?;
        let kind = Kind::from_c(datatype).ok_or(Errno::EINVAL)?;
        param::define(provider.as_deref(), &name, kind, &help)
    };
    status(define())
}

/// `fi_param_get`. Texts live as long as the process.
///
/// # Safety
/// `provider` is null or a provider, `name` is a terminated text or null, `value` is null or has
/// room for a value of the variable's type.
pub(crate) unsafe fn get(
    provider: *mut fi_provider,
    name: *const c_char,
    value: *mut c_void,
) -> c_int {
    let get = || {
        // SAFETY: the caller's promise.
        let provider = unsafe { provider_name(provider) }?;
        // SAFETY: the caller's promise.
        let name = unsafe { text::read(name) }?.ok_or(Errno::EINVAL)?;
        if value.is_null() {
            return Err(Errno::EINVAL);
        }
        let found = param::get(provider.as_deref(), &name)?;
        // SAFETY: the caller has room for a value of this type.
        unsafe {
            match found {
                Value::Text(text) => value.cast::<*const c_char>().write(text.as_ptr()),
                Value::Int(number) => value.cast::<c_int>().write(number),
                Value::Bool(truth) => value.cast::<c_int>().write(truth.into()),
                Value::Size(size) => value.cast::<usize>().write(size),
            }
        }
        Ok(())
    };
    status(get())
}

/// The name of a provider; `None` without one, which stands for the core.
///
/// # Safety
/// `provider` is null or a provider whose name is a terminated text or null.
pub(crate) unsafe fn provider_name(provider: *const fi_provider) -> Result<Option<String>> {
    // SAFETY: the caller's promise.
    let Some(provider) = (unsafe { provider.as_ref() }) else { return Ok(None) };
    // SAFETY: the caller's promise.
    unsafe { text::read(provider.name) }
}

#[cfg(test)]
mod tests {
    use core::ffi::CStr;

    use super::*;

    fn provider() -> fi_provider {
        fi_provider { name: c"ffitest".as_ptr(), ..fi_provider::zeroed() }
    }

    #[test]
    fn defined_variables_are_listed() {
        let provider = provider();
        // SAFETY: terminated texts and a provider.
        let define = |name: &CStr, kind| unsafe {
            define(&raw const provider, name.as_ptr(), kind, c"how deep".as_ptr())
        };
        assert_eq!(define(c"depth", 3), 0);
        assert_eq!(define(c"depth", 4), -22);
        assert_eq!(define(c"", 3), -22);

        let (mut params, mut count) = (core::ptr::null_mut(), 0);
        // SAFETY: room for both values.
        assert_eq!(unsafe { list(&raw mut params, &raw mut count) }, 0);
        // SAFETY: the list has `count` variables.
        let all = unsafe { core::slice::from_raw_parts(params, count as usize) };
        // SAFETY: names and help are terminated texts.
        let text = |text| unsafe { CStr::from_ptr(text) };
        let depth = all.iter().find(|p| text(p.name) == c"FI_FFITEST_DEPTH").expect("listed");
        assert_eq!((text(depth.help_string), depth.r#type), (c"ffitest: how deep", 3));
        assert!(depth.value.is_null());
        // SAFETY: the list of above, once; null is allowed.
        unsafe {
            free(params);
            free(core::ptr::null_mut());
            assert_eq!(list(core::ptr::null_mut(), &raw mut count), -22);
        }
    }

    #[test]
    fn reading_needs_a_definition_and_a_value() {
        let mut provider = provider();
        let mut value = 7usize;
        // SAFETY: terminated texts, a provider, and room for the widest value.
        let mut get =
            |name: &CStr| unsafe { get(&raw mut provider, name.as_ptr(), (&raw mut value).cast()) };
        assert_eq!(get(c"never"), -2);
        param::define(Some("ffitest"), "unset", Kind::Size, "").unwrap();
        assert_eq!(get(c"unset"), -61);
    }
}
