//! PENDING. Asynchronous events of devices, for all that have to do with a device.
//!
//! The kernel tells an opening of a device of each event once, whoever asks first; several domains may
//! share one opening. Whoever takes events from the device hands them to everybody.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use crate::sys::{AsyncEvent, Context};

/// Events that one reader has not taken in yet.
#[derive(Debug)]
pub(crate) struct Events {
    context: Context,
    waiting: Mutex<VecDeque<AsyncEvent>>,
}

static READERS: Mutex<Vec<Weak<Events>>> = Mutex::new(Vec::new());

impl Events {
    /// A reader of a device's events, from now on.
    pub(crate) fn of(context: Context) -> Arc<Self> {
        let events = Arc::new(Self { context, waiting: Mutex::default() });
        let mut readers = lock(&READERS);
        readers.retain(|reader| reader.strong_count() != 0);
        readers.push(Arc::downgrade(&events));
        events
    }

    /// Asks the device for events, for all of its readers.
    pub(crate) fn fetch(&self) {
        while let Ok(event) = self.context.next_async_event() {
            let readers = lock(&READERS).clone();
            for reader in readers.iter().filter_map(Weak::upgrade) {
                if reader.context == self.context {
                    lock(&reader.waiting).push_back(event);
                }
            }
        }
    }

    /// The next event, of those that have been fetched by whomever.
    pub(crate) fn next(&self) -> Option<AsyncEvent> {
        lock(&self.waiting).pop_front()
    }

    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        !lock(&self.waiting).is_empty()
    }
}

/// What is locked is whole after every statement, so a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{
        About,
        mock::{self, RXE},
    };

    #[test]
    fn everybody_hears_of_it_and_of_no_other_device() {
        let other = Events::of(mock::device(RXE));
        let context = mock::device(RXE);
        let readers = [Events::of(context), Events::of(context)];
        let event = AsyncEvent { number: 10, about: About::Port(1) };
        mock::async_event(10, 1);
        readers[0].fetch();
        readers[1].fetch();
        for reader in &readers {
            assert_eq!((reader.any(), reader.next(), reader.next()), (true, Some(event), None));
        }
        assert_eq!(other.next(), None);
    }
}
