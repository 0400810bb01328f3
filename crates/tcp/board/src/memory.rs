//! The heap, and the most of it and of the stack that was in use.

use core::alloc::{GlobalAlloc, Layout};
use core::mem::MaybeUninit;
use core::ptr::{addr_of, addr_of_mut};
use core::sync::atomic::{AtomicUsize, Ordering};

use cortex_m_rt::STACK_PAINT_VALUE;
use embedded_alloc::LlffHeap;

const BYTES: usize = 512 << 10;

/// A heap that notes its peak.
struct Noted(LlffHeap);

#[global_allocator]
static HEAP: Noted = Noted(LlffHeap::empty());
static PEAK: AtomicUsize = AtomicUsize::new(0);
static mut MEMORY: [MaybeUninit<u8>; BYTES] = [MaybeUninit::uninit(); BYTES];

// SAFETY: every call goes to the allocator inside.
unsafe impl GlobalAlloc for Noted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to `alloc`'s contract.
        let memory = unsafe { self.0.alloc(layout) };
        PEAK.fetch_max(self.0.used(), Ordering::Relaxed);
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps to `dealloc`'s contract.
        unsafe { self.0.dealloc(memory, layout) }
    }
}

/// Gives the heap its memory. To be called once, before anything is allocated.
pub(crate) fn start_heap() {
    // SAFETY: nothing else names the array, and this is called once.
    unsafe { HEAP.0.init(addr_of_mut!(MEMORY) as usize, BYTES) }
}

/// The most bytes of the heap that were in use at one time.
pub(crate) fn heap_peak() -> usize {
    PEAK.load(Ordering::Relaxed)
}

/// Bytes of the stack that were ever written: cortex-m-rt has painted it before.
pub(crate) fn stack_peak() -> usize {
    unsafe extern "C" {
        static _stack_start: u32;
        static _stack_end: u32;
    }
    let (top, bottom) = (addr_of!(_stack_start), addr_of!(_stack_end));
    let mut place = bottom;
    // SAFETY: the linker's script says that all words between are the stack's.
    while place < top && unsafe { place.read_volatile() } == STACK_PAINT_VALUE {
        place = place.wrapping_add(1);
    }
    top as usize - place as usize
}
