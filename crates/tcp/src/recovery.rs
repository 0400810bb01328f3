//! Recovery episodes, and the signs that one was for nothing.

use crate::receiver::Span;

/// An episode in which losses are repaired.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// SND.NXT when it began: it lasts until everything before is acknowledged.
    end: u64,
    is_timeout: bool,
}

/// The facts that are needed to see that every retransmission of an episode was unnecessary.
#[derive(Clone, Copy, Debug)]
struct Undo {
    span: Span,
    is_timeout: bool,
    /// This end's clock at the first retransmission (RFC 3522: RetransmitTS).
    first_copy: Option<u32>,
    /// Copies without a DSACK.
    copies: u32,
}

/// A verdict on an episode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing is known, or it was right.
    None,
    /// Nothing was lost.
    Spurious,
    /// The retransmission timer fired too early: what it marked lost is under way.
    SpuriousTimeout,
}

/// Forward RTO-Recovery (RFC 5682 section 3.1): after a timeout new data goes out before the lost,
/// and the ACKs tell whether the originals were only late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Frto {
    /// Step 2: the ACK of the first segment, which was sent again, is waited for.
    First,
    /// Step 3: so many new segments may still leave; then the next ACK decides.
    Second { may_send: u8 },
}

#[derive(Debug, Default)]
pub(crate) struct Recovery {
    episode: Option<Episode>,
    undo: Option<Undo>,
    frto: Option<Frto>,
}

/// The parts of an ACK that F-RTO judges by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// SND.UNA now, and before.
    pub(crate) una: u64,
    pub(crate) prior_una: u64,
    /// The end of the first segment that this ACK is the first to acknowledge, and that was sent
    /// once alone.
    pub(crate) original: Option<u64>,
    /// The ACK does not advance, and is no mere update of the window.
    pub(crate) is_duplicate: bool,
    /// Something that was never sent may leave now.
    pub(crate) has_new: bool,
}

impl Recovery {
    pub(crate) fn is_active(&self) -> bool {
        self.episode.is_some()
    }

    /// True if an ACK of everything before `una` would end the episode.
    pub(crate) fn ends_at(&self, una: u64) -> bool {
        self.episode.is_none_or(|episode| una >= episode.end)
    }

    /// Losses were found, of what is between `una` and `nxt`.
    pub(crate) fn begin(&mut self, una: u64, nxt: u64, is_timeout: bool) {
        if self.episode.is_none() {
            let span = Span { start: una, end: nxt };
            self.undo = Some(Undo { span, is_timeout, first_copy: None, copies: 0 });
            self.episode = Some(Episode { end: nxt, is_timeout });
        } else if is_timeout {
            // Losses in a row are congestion, whatever the timestamps say of the last one.
            (self.undo, self.frto) = (None, None);
            self.episode = Some(Episode { end: nxt, is_timeout });
        }
    }

    /// The timeout that has just begun an episode is examined by F-RTO. One that follows on others
    /// is not (RFC 5682 section 3.1, step 1).
    pub(crate) fn examine(&mut self) {
        self.frto = self.undo.is_some().then_some(Frto::First);
    }

    /// True if what is lost waits until F-RTO has decided.
    pub(crate) fn holds_repeats(&self) -> bool {
        matches!(self.frto, Some(Frto::Second { .. }))
    }

    /// True if F-RTO sends no more before the next ACK.
    pub(crate) fn holds_all(&self) -> bool {
        self.frto == Some(Frto::Second { may_send: 0 })
    }

    /// New data was sent.
    pub(crate) fn on_new(&mut self) {
        if let Some(Frto::Second { may_send }) = &mut self.frto {
            *may_send = may_send.saturating_sub(1);
        }
    }

    /// Steps 2 and 3 of RFC 5682 section 3.1.
    pub(crate) fn on_evidence(&mut self, evidence: Evidence) -> Verdict {
        let (Some(frto), Some(episode)) = (self.frto, self.episode) else { return Verdict::None };
        let advanced = evidence.una > evidence.prior_una;
        match frto {
            Frto::First => {
                let goes_on = advanced && evidence.una < episode.end && evidence.has_new;
                if goes_on {
                    self.frto = Some(Frto::Second { may_send: 2 });
                } else if advanced || evidence.is_duplicate {
                    self.frto = None;
                }
            }
            // 3 b: an original from before the timeout has arrived.
            Frto::Second { .. } if evidence.original.is_some_and(|end| end <= episode.end) => {
                (self.frto, self.undo, self.episode) = (None, None, None);
                return Verdict::SpuriousTimeout;
            }
            // 3 a: nothing of what was under way has.
            Frto::Second { .. } if advanced || evidence.is_duplicate => self.frto = None,
            Frto::Second { .. } => {}
        }
        Verdict::None
    }

    /// A lost segment was sent again, when this end's clock was at `clock`.
    pub(crate) fn on_repeat(&mut self, clock: u32) {
        if let Some(undo) = &mut self.undo {
            undo.first_copy.get_or_insert(clock);
            undo.copies += 1;
        }
    }

    /// A DSACK: a copy and its original arrived (RFC 3708).
    pub(crate) fn on_dsack(&mut self, span: Span) -> Verdict {
        let Some(undo) = &mut self.undo else { return Verdict::None };
        if undo.copies == 0 || span.start < undo.span.start || span.end > undo.span.end {
            return Verdict::None;
        }
        undo.copies -= 1;
        if undo.copies > 0 || undo.is_timeout && self.episode.is_some() {
            return Verdict::None;
        }
        (self.undo, self.episode, self.frto) = (None, None, None);
        Verdict::Spurious
    }

    /// SND.UNA moved to `una` by an ACK that echoes `echo`; whether the episode is over, and the
    /// verdict.
    ///
    /// An echo from before the first retransmission is that of an original (the Eifel detection,
    /// RFC 3522 section 3.2). After a timeout the first such ACK decides; after other losses the
    /// one that ends the episode, for which every original has to be here.
    pub(crate) fn on_advance(&mut self, una: u64, echo: Option<u32>) -> (bool, Verdict) {
        let Some(episode) = self.episode else { return (false, Verdict::None) };
        let ended = una >= episode.end;
        let first_copy = self.undo.and_then(|undo| undo.first_copy);
        let is_original = echo.zip(first_copy).is_some_and(|(echo, copy)| before(echo, copy));
        let verdict = match episode.is_timeout {
            true if is_original => Verdict::SpuriousTimeout,
            false if is_original && ended => Verdict::Spurious,
            _ => Verdict::None,
        };
        if verdict != Verdict::None {
            self.undo = None;
        } else if episode.is_timeout && first_copy.is_some() {
            // The first ACK has decided.
            self.undo = None;
        }
        if ended || verdict != Verdict::None {
            (self.episode, self.frto) = (None, None);
        }
        (ended, verdict)
    }
}

/// True if a timestamp is older than another one (RFC 7323 section 5.2).
pub(crate) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
