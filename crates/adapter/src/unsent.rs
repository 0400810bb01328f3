//! Data that an application has and that its stack has not taken.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

/// The writers of a connection that have data which the stack has not taken: the half of the
/// draft's NoUnsentData() that no stack reports.
///
/// quinn, noq and s2n-quic call a sender "application-limited" when they find nothing to send. They
/// find nothing as well when the peer's flow control, or their own send buffer, keeps the
/// application's data out. The draft marks the former alone (CheckIfApplicationLimited): a
/// controller that marks both stays in Startup for as long as the peer's window limits it, with all
/// of the queue that the window has room for. So the application says when it has data, and a
/// controller takes the stack's word only where it has none.
///
/// An application makes one of these for a connection and gives it to the connection's controller;
/// each of its streams holds a [`Writer`] while it has something to write.
#[derive(Clone, Debug, Default)]
pub struct Unsent(Arc<AtomicUsize>);

impl Unsent {
    /// A stream that has data from now on until the [`Writer`] is dropped.
    pub fn writer(&self) -> Writer {
        self.0.fetch_add(1, Ordering::Relaxed);
        Writer(self.clone())
    }

    /// Writers that have data.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// True if no writer has data.
    pub fn is_none(&self) -> bool {
        self.count() == 0
    }
}

/// A stream that has data to write, but for the waits in [`Writer::source`].
#[derive(Debug)]
pub struct Writer(Unsent);

impl Writer {
    /// Waits for the data that is written next, from a disk or another connection: there is none
    /// meanwhile. A source that gives it at once changes nothing.
    pub async fn source<F: Future>(&mut self, source: F) -> F::Output {
        let mut source = pin!(source);
        let mut waits = None;
        poll_fn(|cx| match source.as_mut().poll(cx) {
            Poll::Ready(data) => {
                waits = None;
                Poll::Ready(data)
            }
            Poll::Pending => {
                waits.get_or_insert_with(|| Waiting::begin(&self.0));
                Poll::Pending
            }
        })
        .await
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A writer that waits for its source, which does not count.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(unsent: &'a Unsent) -> Self {
        unsent.0.fetch_sub(1, Ordering::Relaxed);
        Self(&unsent.0)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};
    use std::task::{Context, Waker};

    #[test]
    fn there_is_data_while_a_writer_is_there_and_does_not_wait_for_its_source() {
        let unsent = Unsent::default();
        assert!(unsent.is_none());
        let (mut first, second) = (unsent.writer(), unsent.writer());
        drop(second);
        assert!(!unsent.is_none(), "one is left");
        let mut cx = Context::from_waker(Waker::noop());
        {
            let mut at_once = pin!(first.source(ready(7)));
            assert_eq!(at_once.as_mut().poll(&mut cx), Poll::Ready(7));
        }
        assert!(!unsent.is_none(), "the source gave it at once");
        {
            let mut waits = pin!(first.source(pending::<()>()));
            for _ in 0..2 {
                assert!(waits.as_mut().poll(&mut cx).is_pending());
                assert!(unsent.is_none(), "it waits for its source");
            }
            let other = unsent.writer();
            assert!(!unsent.is_none(), "another has data");
            drop(other);
        }
        assert!(!unsent.is_none(), "the wait was given up");
        drop(first);
        assert!(unsent.is_none());
    }

    #[test]
    fn a_wait_that_ends_counts_again() {
        let unsent = Unsent::default();
        let mut writer = unsent.writer();
        let mut polls = 0;
        {
            let mut cx = Context::from_waker(Waker::noop());
            let mut later = pin!(writer.source(poll_fn(|_| {
                polls += 1;
                if polls == 1 { Poll::Pending } else { Poll::Ready(polls) }
            })));
            assert!(later.as_mut().poll(&mut cx).is_pending());
            assert!(unsent.is_none());
            assert_eq!(later.as_mut().poll(&mut cx), Poll::Ready(2));
            assert!(!unsent.is_none());
        }
        drop(writer);
        assert!(unsent.is_none());
    }
}
