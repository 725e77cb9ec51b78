//! SETUP. A domain: what its endpoints, queues and regions share.

use core::{any::Any, fmt};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::{
    Errno, Result,
    attr::{DomainAttr, Info, Progress, Threading, Version},
    flags::Flags,
    mr::{MrTable, Registrar},
};

/// An open domain.
pub struct Domain {
    attr: DomainAttr,
    provider: String,
    caps: Flags,
    api_version: Version,
    regions: Arc<MrTable>,
    children: AtomicUsize,
    /// Peers may be lent memory of operations.
    lends: AtomicBool,
    /// What the provider's endpoints share.
    common: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Domain").field("attr", &self.attr).finish_non_exhaustive()
    }
}

impl Domain {
    /// Opens a domain with the attributes of a discovered [`Info`].
    pub fn open(info: &Info) -> Result<Arc<Self>> {
        Self::with(info, None)
    }

    /// The same where a device registers the memory.
    pub fn open_on(info: &Info, device: Arc<dyn Registrar>) -> Result<Arc<Self>> {
        Self::with(info, Some(device))
    }

    fn with(info: &Info, device: Option<Arc<dyn Registrar>>) -> Result<Arc<Self>> {
        let attr = info.domain.clone().ok_or(Errno::EINVAL)?;
        let fabric = info.fabric.as_ref();
        let api_version = fabric.map_or(Version(0), |fabric| fabric.api_version);
        let provider = fabric.and_then(|fabric| fabric.prov_name.clone()).unwrap_or_default();
        let table = MrTable::new(attr.mr_mode).limited_to(attr.mr_iov_limit);
        let regions = Arc::new(match device {
            Some(device) => table.on(device),
            None => table,
        });
        Ok(Arc::new(Self {
            attr,
            provider,
            caps: info.caps,
            api_version,
            regions,
            children: AtomicUsize::new(0),
            lends: AtomicBool::new(true),
            common: Mutex::default(),
        }))
    }

    /// The attributes it was opened with.
    pub fn attr(&self) -> &DomainAttr {
        &self.attr
    }

    /// The provider's name.
    pub fn provider(&self) -> &str {
        &self.provider
    }

    /// What the info that it was opened with can do.
    pub const fn caps(&self) -> Flags {
        self.caps
    }

    /// The interface version that the application asked for.
    pub fn api_version(&self) -> Version {
        self.api_version
    }

    /// Its memory regions.
    pub fn regions(&self) -> &Arc<MrTable> {
        &self.regions
    }

    /// Whether calls must be guarded here: several threads of the application, or one of ours.
    pub fn needs_locks(&self) -> bool {
        let serialised = matches!(
            Threading::from_raw(self.attr.threading),
            Some(Threading::Domain | Threading::Completion)
        );
        !serialised || self.auto_progress()
    }

    /// Whether operations must move forward without calls of the application.
    pub fn auto_progress(&self) -> bool {
        Progress::from_raw(self.attr.progress) == Some(Progress::Auto)
    }

    /// From now on endpoints are opened that lend peers no memory of operations to write to. A peer that
    /// is stopped in the middle of such a write, and goes on when the endpoint has been closed, writes to
    /// what that memory is by then.
    pub fn lend_nothing(&self) {
        // Relaxed: endpoints are opened behind this by whoever has called it.
        self.lends.store(false, Ordering::Relaxed);
    }

    /// Whether endpoints may lend peers memory of operations.
    pub fn lends(&self) -> bool {
        self.lends.load(Ordering::Relaxed)
    }

    /// What the provider's endpoints in this domain share, made by the first of them. A provider
    /// keeps one type here; another one is made anew and not kept.
    pub fn common<T: Any + Send + Sync>(
        &self,
        make: impl FnOnce() -> Result<Arc<T>>,
    ) -> Result<Arc<T>> {
        let mut common = self.common.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = common.clone().and_then(|common| common.downcast::<T>().ok()) {
            return Ok(known);
        }
        let made = make()?;
        common.get_or_insert(made.clone());
        Ok(made)
    }

    /// Counts an object opened under this domain until the guard is dropped.
    pub fn child(self: &Arc<Self>) -> Child {
        // Relaxed: the count orders nothing; closing is serialised with opening by the caller.
        self.children.fetch_add(1, Ordering::Relaxed);
        Child(self.clone())
    }

    /// Objects open under it, memory regions apart.
    pub fn children(&self) -> usize {
        self.children.load(Ordering::Relaxed)
    }

    /// Whether objects are still open under it, so that closing is refused with `EBUSY`.
    pub fn in_use(&self) -> bool {
        self.children() != 0 || !self.regions.is_empty()
    }
}

/// An object's claim on its domain.
#[derive(Debug)]
pub struct Child(Arc<Domain>);

impl Child {
    /// The domain.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.0
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.0.children.fetch_sub(1, Ordering::Relaxed);
    }
}
