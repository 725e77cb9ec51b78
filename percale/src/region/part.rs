//! HOT. Parts of a region as buffers of operations.
#![allow(unsafe_code, reason = "says of memory that it stays where it is")]

use std::sync::Arc;

use super::View;
use crate::{
    buf::{Buf, BufMut, Piece},
    memory::Memory,
};

/// A part of a region's memory as a buffer.
#[derive(Clone, Debug)]
pub struct Part {
    memory: Arc<Memory>,
    at: usize,
    len: usize,
}

impl Part {
    /// A part that is within the memory.
    pub(super) const fn new(memory: Arc<Memory>, at: usize, len: usize) -> Self {
        Self { memory, at, len }
    }

    /// Its memory, to read and write.
    pub fn view(&self) -> View {
        View::part(self.memory.clone(), self.at, self.len)
    }
}

// SAFETY: the memory stays as long as the part, wherever that moves.
unsafe impl Buf for Part {
    fn piece(&self) -> Piece {
        Piece::new(self.memory.at(self.at), self.len).marked(self.memory.mark())
    }
}

// SAFETY: as above. There are no references to the memory that a write could break.
unsafe impl BufMut for Part {
    fn piece_mut(&mut self) -> Piece {
        self.piece()
    }

    unsafe fn filled(&mut self, _: usize) {}
}
