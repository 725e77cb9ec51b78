//! PENDING. What becomes of the device that datagram endpoints are on.
//!
//! The device tells anybody who asks, once: who reads an event queue, or drives one of a domain's
//! endpoints. So each endpoint has a place here, where others leave what its engine has to know.

use std::{
    os::fd::{AsFd, BorrowedFd, RawFd},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicI32, Ordering},
    },
};

use fabric_core::{
    Errno, Result,
    eq::{ControlEvent, Drive, ErrorEvent, Event, EventQueue},
    wait::Signal,
};

use crate::{
    device::Device,
    events::{Events, News},
    sys::Context,
};

/// The device of a domain, and the domain's endpoints.
#[derive(Debug)]
pub(crate) struct Watch {
    device: Arc<Device>,
    context: Context,
    events: Arc<Events>,
    places: Mutex<Vec<Weak<Place>>>,
}

/// An endpoint's place.
#[derive(Debug)]
pub(super) struct Place {
    /// The number of its queue pair.
    qp: u32,
    /// Why nothing completes any more, until its engine knows; zero otherwise.
    broken: AtomicI32,
    /// Rings meanwhile.
    bell: Signal,
    told: Mutex<Told>,
}

/// Who is told of an endpoint.
#[derive(Debug, Default)]
struct Told {
    /// How events name it.
    object: usize,
    eq: Option<Arc<EventQueue>>,
}

impl Watch {
    /// Of an open device.
    pub(super) fn new(device: Arc<Device>, context: Context) -> Result<Arc<Self>> {
        rustix::io::ioctl_fionbio(context.async_fd(), true)?;
        let events = Events::of(context);
        Ok(Arc::new(Self { device, context, events, places: Mutex::default() }))
    }

    /// A place for the endpoint with this queue pair.
    pub(super) fn place(&self, qp: u32) -> Result<Arc<Place>> {
        let place = Arc::new(Place {
            qp,
            broken: AtomicI32::new(0),
            bell: Signal::new()?,
            told: Mutex::default(),
        });
        let mut places = lock(&self.places);
        places.retain(|place| place.strong_count() != 0);
        places.push(Arc::downgrade(&place));
        Ok(place)
    }

    /// What is readable when the device has something to tell.
    pub(super) fn fd(&self) -> BorrowedFd<'static> {
        self.context.async_fd()
    }

    /// Takes in what the device tells.
    #[cold]
    pub(super) fn look(&self) {
        self.events.fetch();
        while let Some(event) = self.events.next() {
            let number = event.number;
            match News::of(event, &self.device) {
                Some(News::LinkDown) => self.tell_all(Errno::ENETDOWN, number),
                Some(News::LinkUp) => {
                    self.places().iter().for_each(|place| place.notify(number));
                }
                Some(News::GivenUp(qp, reason)) => {
                    for place in self.places().iter().filter(|place| place.qp == qp) {
                        place.tell(reason, number);
                        place.breaks(reason);
                    }
                }
                Some(News::Gone) => {
                    self.tell_all(Errno::ENODEV, number);
                    self.places().iter().for_each(|place| place.breaks(Errno::ENODEV));
                }
                None => {}
            }
        }
    }

    fn tell_all(&self, reason: Errno, number: u32) {
        self.places().iter().for_each(|place| place.tell(reason, number));
    }

    fn places(&self) -> Vec<Arc<Place>> {
        lock(&self.places).iter().filter_map(Weak::upgrade).collect()
    }
}

impl Drive for Watch {
    fn drive(&self) {
        self.look();
    }

    fn arm(&self) -> Result<bool> {
        Ok(!self.events.any())
    }

    fn wait_fd(&self) -> Result<RawFd> {
        Ok(std::os::fd::AsRawFd::as_raw_fd(&self.fd()))
    }
}

impl Place {
    /// Events name the endpoint by this.
    pub(super) fn introduce(&self, object: usize) {
        lock(&self.told).object = object;
    }

    /// Who hears of the endpoint; nobody, at its end.
    pub(super) fn set_eq(&self, eq: Option<Arc<EventQueue>>) {
        // The one before goes without the lock held.
        let _before = std::mem::replace(&mut lock(&self.told).eq, eq);
    }

    /// What rings until [`Place::take`].
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Why nothing completes any more, if there is a reason that its engine does not know.
    #[inline]
    pub(super) fn take(&self) -> Option<Errno> {
        if self.broken.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.bell.clear();
        match self.broken.swap(0, Ordering::AcqRel) {
            0 => None,
            reason => Some(Errno::new(reason)),
        }
    }

    fn breaks(&self, reason: Errno) {
        if self.broken.swap(reason.get(), Ordering::AcqRel) == 0 {
            self.bell.set();
        }
    }

    fn tell(&self, reason: Errno, number: u32) {
        let told = lock(&self.told);
        if let Some(eq) = &told.eq {
            let error = ErrorEvent::new(told.object, 0, reason);
            eq.push_error(ErrorEvent { prov_errno: number as i32, ..error });
        }
    }

    fn notify(&self, number: u32) {
        let told = lock(&self.told);
        if let Some(eq) = &told.eq {
            let data = u64::from(number);
            eq.push(Event::Notify(ControlEvent { object: told.object, context: 0, data }));
        }
    }
}

/// What is locked is whole after every statement, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
