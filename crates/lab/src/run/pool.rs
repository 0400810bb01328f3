//! Work on as many threads as are wanted, whose results come to the calling thread as they are
//! ready.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Does each piece of work once. `take` gets the results on this thread, in the order in which they
/// are ready; when it says false, no further work begins.
pub fn each<W: Copy + Send + Sync, R: Send>(
    todo: &[W],
    jobs: usize,
    work: impl Fn(W) -> R + Sync,
    mut take: impl FnMut(W, R) -> bool,
) {
    each_together(todo, jobs, work, |ready| {
        ready.into_iter().all(|(one, result)| take(one, result))
    });
}

/// The same, but `take` gets all results that are ready: at least one, and more where it takes
/// longer than the work.
pub fn each_together<W: Copy + Send + Sync, R: Send>(
    todo: &[W],
    jobs: usize,
    work: impl Fn(W) -> R + Sync,
    mut take: impl FnMut(Vec<(W, R)>) -> bool,
) {
    let (next, is_over) = (&AtomicUsize::new(0), &AtomicBool::new(false));
    let work = &work;
    std::thread::scope(|scope| {
        let (send, results) = mpsc::channel();
        for _ in 0..jobs.clamp(1, todo.len().max(1)) {
            let send = send.clone();
            scope.spawn(move || {
                while let Some(&one) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // Nobody listens any more when something went wrong.
                    if is_over.load(Ordering::Relaxed) || send.send((one, work(one))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        while let Ok(first) = results.recv() {
            if !take(std::iter::once(first).chain(results.try_iter()).collect()) {
                is_over.store(true, Ordering::Relaxed);
                break;
            }
        }
    });
}
