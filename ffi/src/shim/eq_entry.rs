//! SETUP. Events as the structs that C reads.

use core::ffi::c_void;
use std::sync::{Arc, atomic::Ordering};

use fabric_core::{
    Errno, Result,
    attr::Info,
    eq::{ControlEvent, Event},
};

use super::{connreq, payload::EqObject};
use crate::{
    abi::{
        Plain,
        event::{fi_eq_cm_entry, fi_eq_entry},
        info::fi_info,
    },
    info,
};

/// An event on its way to the application.
pub(super) struct Entry {
    /// Its number.
    pub(super) number: u32,
    /// The struct, with what follows it.
    pub(super) bytes: Vec<u8>,
}

/// The entry of an event for a reader with `room` bytes, who leaves it in the queue with `keep`.
///
/// A connection request is refused with `ETOOSMALL` if there is not even room for its info; one
/// without any room is not handed out at all, and ends when its event goes.
pub(super) fn of(event: &Event, object: &EqObject, room: usize, keep: bool) -> Result<Entry> {
    let bytes = match event {
        Event::Notify(event)
        | Event::MrComplete(event)
        | Event::AvComplete(event)
        | Event::JoinComplete(event) => control(event),
        Event::Connected { object, data } => connection(*object, core::ptr::null_mut(), data),
        Event::Shutdown { object } => connection(*object, core::ptr::null_mut(), &[]),
        Event::Raw { data, .. } => data.clone(),
        Event::ConnectionRequest { .. } if room == 0 => Vec::new(),
        Event::ConnectionRequest { .. } if room < size_of::<fi_eq_cm_entry>() => {
            return Err(Errno::ETOOSMALL);
        }
        Event::ConnectionRequest { object: pep, info, handle, data } => {
            let make = || request_info(info, object);
            // SAFETY: the info is fresh.
            let info = unsafe { connreq::hand_out(handle, *pep, &object.eq, keep, make) }?;
            connection(*pep, info, data)
        }
    };
    Ok(Entry { number: event.number(), bytes })
}

/// What an endpoint for the connection is opened with, as the application's own. It names the
/// fabric that is open; which domain the endpoint will be in is not known.
fn request_info(offer: &Arc<Info>, object: &EqObject) -> Result<*mut fi_info> {
    let fabric = &object.fabric.0;
    let mut offer = Info::clone(offer);
    let attr = offer.fabric.get_or_insert_with(|| fabric.attr.clone());
    attr.api_version = fabric.attr.api_version;
    let info = info::write_list([&offer])?;
    // SAFETY: complete, fresh, and not known elsewhere; with attributes of the fabric.
    let named = unsafe { &mut (*(*info).fabric_attr).fabric };
    *named = core::ptr::with_exposed_provenance_mut(fabric.address.load(Ordering::Relaxed));
    Ok(info)
}

fn control(event: &ControlEvent) -> Vec<u8> {
    bytes_of(&fi_eq_entry {
        fid: core::ptr::with_exposed_provenance_mut(event.object),
        context: core::ptr::with_exposed_provenance_mut::<c_void>(event.context),
        data: event.data,
    })
}

fn connection(object: usize, info: *mut fi_info, data: &[u8]) -> Vec<u8> {
    let fid = core::ptr::with_exposed_provenance_mut(object);
    let mut entry = bytes_of(&fi_eq_cm_entry { fid, info, data: [] });
    entry.extend_from_slice(data);
    entry
}

fn bytes_of<T: Plain>(entry: &T) -> Vec<u8> {
    let bytes = core::ptr::from_ref(entry).cast::<u8>();
    // SAFETY: the entries are structs of words without padding.
    unsafe { core::slice::from_raw_parts(bytes, size_of::<T>()) }.to_vec()
}
