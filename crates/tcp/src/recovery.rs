//! Recovery episodes, and the signs that one was for nothing.

use alloc::collections::BTreeMap;

use crate::receiver::Span;

/// An episode in which losses are repaired.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// SND.NXT when it began: it lasts until everything before is acknowledged.
    end: u64,
    is_timeout: bool,
}

/// The facts that are needed to see that every retransmission of an episode was unnecessary.
#[derive(Debug)]
struct Undo {
    is_timeout: bool,
    /// This end's clock at the first retransmission (RFC 3522: RetransmitTS).
    first_copy: Option<u32>,
    /// Copies without a DSACK by the place where they begin: the end, and how many there are.
    copies: BTreeMap<u64, (u64, u32)>,
}

/// A verdict on an episode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EpisodeVerdict {
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
    /// The end of the newest episode (RFC 6582 section 3.2: recover).
    recover: u64,
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

    /// True in a recovery that no timeout began.
    pub(crate) fn is_of_losses(&self) -> bool {
        self.episode.is_some_and(|episode| !episode.is_timeout)
    }

    /// True in a recovery that a timeout began.
    pub(crate) fn is_of_timeout(&self) -> bool {
        self.episode.is_some_and(|episode| episode.is_timeout)
    }

    /// True if duplicates of an ACK of everything before `una` tell of a loss, without SACK: those
    /// during a recovery, and of its end, may be of its own copies (RFC 6582 section 3.2, step 2).
    pub(crate) fn may_begin(&self, una: u64) -> bool {
        self.episode.is_none() && una > self.recover
    }

    /// True if `echo` is from before the first repair: that of an original (RFC 3522 section 3.2).
    fn is_original(&self, echo: Option<u32>) -> bool {
        let first_copy = self.undo.as_ref().and_then(|undo| undo.first_copy);
        echo.zip(first_copy).is_some_and(|(echo, copy)| before(echo, copy))
    }

    /// True if an ACK of everything before `una` would end the episode.
    pub(crate) fn ends_at(&self, una: u64) -> bool {
        self.episode.is_none_or(|episode| una >= episode.end)
    }

    /// Losses were found, of what is before `nxt`.
    pub(crate) fn begin(&mut self, nxt: u64, is_timeout: bool) {
        if self.episode.is_none() {
            self.recover = nxt;
            self.undo = Some(Undo { is_timeout, first_copy: None, copies: BTreeMap::new() });
            self.episode = Some(Episode { end: nxt, is_timeout });
        } else if is_timeout {
            // Losses in a row are congestion, whatever the timestamps say of the last one.
            (self.undo, self.frto, self.recover) = (None, None, nxt);
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
    pub(crate) fn on_evidence(&mut self, evidence: Evidence) -> EpisodeVerdict {
        let (Some(frto), Some(episode)) = (self.frto, self.episode) else {
            return EpisodeVerdict::None;
        };
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
                return EpisodeVerdict::SpuriousTimeout;
            }
            // 3 a: nothing of what was under way has.
            Frto::Second { .. } if advanced || evidence.is_duplicate => self.frto = None,
            Frto::Second { .. } => {}
        }
        EpisodeVerdict::None
    }

    /// A lost segment was sent again, when this end's clock was at `clock`.
    pub(crate) fn on_repeat(&mut self, clock: u32, span: Span) {
        if let Some(undo) = &mut self.undo {
            undo.first_copy.get_or_insert(clock);
            let (end, count) = undo.copies.entry(span.start).or_insert((span.end, 0));
            (*end, *count) = (span.end.max(*end), *count + 1);
        }
    }

    /// A DSACK: `span` arrived twice. If it covers copies of this recovery, these and their
    /// originals did (RFC 3708); if it does not, the network has doubled a packet, or a probe was
    /// not needed, which says nothing of the losses.
    pub(crate) fn on_dsack(&mut self, span: Span) -> EpisodeVerdict {
        let Some(undo) = &mut self.undo else { return EpisodeVerdict::None };
        let mut counted = false;
        let mut place = span.start;
        while let Some((&start, (end, count))) = undo.copies.range_mut(place..span.end).next() {
            (place, counted) = (start + 1, counted || *end <= span.end);
            if *end <= span.end {
                *count -= 1;
                if *count == 0 {
                    undo.copies.remove(&start);
                }
            }
        }
        let is_open = !undo.copies.is_empty() || undo.is_timeout && self.episode.is_some();
        if !counted || is_open {
            return EpisodeVerdict::None;
        }
        (self.undo, self.episode, self.frto) = (None, None, None);
        EpisodeVerdict::Spurious
    }

    /// SND.UNA moved to `una` by an ACK that echoes `echo`; whether the episode is over, and the
    /// verdict.
    ///
    /// An echo from before the first retransmission is that of an original (the Eifel detection,
    /// RFC 3522 section 3.2). After a timeout the first such ACK decides; after other losses the
    /// one that ends the episode, for which every original has to be here. So they are if it ends
    /// before a repair has left, unless something that was `repeated` as a probe was among them.
    pub(crate) fn on_advance(
        &mut self,
        una: u64,
        echo: Option<u32>,
        repeated: bool,
    ) -> (bool, EpisodeVerdict) {
        let Some(episode) = self.episode else { return (false, EpisodeVerdict::None) };
        let ended = una >= episode.end;
        let is_original = self.is_original(echo);
        let first_copy = self.undo.as_ref().map(|undo| undo.first_copy);
        let was_idle = first_copy == Some(None) && !repeated;
        let verdict = match episode.is_timeout {
            true if is_original => EpisodeVerdict::SpuriousTimeout,
            false if ended && (is_original || was_idle) => EpisodeVerdict::Spurious,
            _ => EpisodeVerdict::None,
        };
        if verdict != EpisodeVerdict::None {
            self.undo = None;
        } else if episode.is_timeout && first_copy.flatten().is_some() {
            // The first ACK has decided.
            self.undo = None;
        }
        if ended || verdict != EpisodeVerdict::None {
            (self.episode, self.frto) = (None, None);
        }
        (ended, verdict)
    }
}

/// True if a timestamp is older than another one (RFC 7323 section 5.2).
pub(crate) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}
