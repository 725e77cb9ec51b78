//! SETUP. Memory that a device has been told of.

use std::sync::Arc;

use fabric_core::{
    Errno,
    flags::Flags,
    mr::{MrRequest, MrTable, Region},
    op::IoVec,
};

/// A registration; it ends with this.
#[derive(Debug)]
pub(crate) struct Registration {
    table: Arc<MrTable>,
    region: Arc<Region>,
}

impl Registration {
    pub(super) fn new(table: &Arc<MrTable>, memory: IoVec, access: Flags) -> Result<Self, Errno> {
        let iov = [memory];
        let request = MrRequest {
            iov: &iov,
            access,
            requested_key: 0,
            offset: 0,
            flags: Flags::empty(),
            context: 0,
        };
        let region = table.register(&request)?;
        Ok(Self { table: table.clone(), region })
    }

    /// What operations name it by.
    pub(crate) fn descriptor(&self) -> usize {
        self.region.descriptor()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Fails for a region that has been closed, which only happens here.
        let _ = self.table.close(&self.region);
    }
}

/// Where memory is registered: in which pool's domain, and what operations there name it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pool: u32,
    descriptor: usize,
}

impl Mark {
    /// Nowhere.
    pub(crate) const NONE: Self = Self { pool: 0, descriptor: 0 };

    pub(super) const fn new(pool: u32, descriptor: usize) -> Self {
        Self { pool, descriptor }
    }

    pub(super) const fn is_of(self, pool: u32) -> bool {
        self.descriptor != 0 && self.pool == pool
    }

    pub(super) const fn descriptor(self) -> usize {
        self.descriptor
    }
}
