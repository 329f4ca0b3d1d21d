//! I8 and I12: every connection ends, says why, and says the truth about it.

use weft_proto::{CloseResult, Error, State};

use crate::violation::{Invariant, Violation, ensure};

/// How one end stands when a run is over.
#[derive(Clone, Debug, Default)]
pub struct Ended {
    /// Its state; `None` if the node that kept it crashed.
    pub state: Option<State>,
    /// Why it failed.
    pub error: Option<Error>,
    /// The result of the close.
    pub result: Option<CloseResult>,
    /// Its user accepted everything it meant to write, and how much that was, in the unit of [`Self::read`].
    pub written: u64,
    /// What its user read.
    pub read: u64,
    /// The number of its FIN, if it sent one.
    pub fin: Option<u64>,
    /// Next number it would use.
    pub next: u64,
    /// Greatest ACK number that reached it.
    pub acked: u64,
    /// Greatest ACK number that it sent.
    pub acknowledges: u64,
    /// Numbers of the peer that reached it without a gap.
    pub arrived: u64,
    /// Both asked for the confirmed close.
    pub confirms: bool,
    /// Its user aborted.
    pub aborted: bool,
}

/// Checks that one end is in a final state and says why.
///
/// # Errors
///
/// If it is not.
pub fn check_final(end: &Ended) -> Result<(), Violation> {
    let Some(state) = end.state else { return Ok(()) };
    ensure(state == State::Closed, Invariant::Ending, || format!("the run is over in {state:?}"))?;
    ensure(end.error.is_some() || end.result.is_some(), Invariant::Ending, || {
        "it is over without an error and without a result".into()
    })
}

/// Checks that the result that `end` reports is true, as seen from its peer.
///
/// # Errors
///
/// If it claims more than happened.
pub fn check_honest(end: &Ended, peer: &Ended) -> Result<(), Violation> {
    let (None, Some(result)) = (end.error, end.result) else { return Ok(()) };
    if result.confirmed {
        check_confirmed(end, peer, &result)?;
    }
    let Some(theirs) = peer.result else { return Ok(()) };
    ensure(result.discarded_by_peer <= theirs.discarded, Invariant::Ending, || {
        format!("says the peer discarded {}, and it discarded {}", result.discarded_by_peer, theirs.discarded)
    })
}

fn check_confirmed(end: &Ended, peer: &Ended, result: &CloseResult) -> Result<(), Violation> {
    // Either our FIN was acknowledged, or the peer's FIN came in order before we closed.
    let ours = end.fin.is_some_and(|fin| peer.acknowledges > fin && end.acked > fin);
    let theirs = peer.fin.is_some_and(|fin| end.arrived > fin);
    ensure(ours || theirs, Invariant::Ending, || "\"confirmed\" without a FIN that got through".into())?;
    if !ours {
        return Ok(());
    }
    // [CDP-ST-F] With CONFIRM the peer's user had read everything or closed, and what it left is told.
    let is_lossless = result.discarded_by_peer == 0 && result.undelivered == 0;
    ensure(!(end.confirms && is_lossless) || peer.read == end.written, Invariant::Ending, || {
        format!("\"confirmed, nothing discarded\", and the peer's user read {} of {}", peer.read, end.written)
    })
}

/// Checks what a reader that closed after the peer's FIN says about what it discarded.
///
/// # Errors
///
/// If it says nothing was discarded and something was.
pub fn check_discarded(end: &Ended, peer: &Ended) -> Result<(), Violation> {
    let (Some(result), None) = (end.result, end.error) else { return Ok(()) };
    let got_fin = peer.fin.is_some_and(|fin| end.arrived > fin && end.acknowledges > fin);
    ensure(!got_fin || result.discarded > 0 || end.read == peer.written, Invariant::Ending, || {
        format!("nothing discarded, and its user read {} of {}", end.read, peer.written)
    })
}

/// Checks an exchange that nothing should have kept from completing: no crash, no black hole longer than the times
/// after which connections give up, and users that wait.
///
/// # Errors
///
/// If it failed or something is missing.
pub fn check_complete(end: &Ended, must_read: u64, is_calm: bool) -> Result<(), Violation> {
    ensure(end.error.is_none(), Invariant::Liveness, || {
        format!("nothing kept it from completing, and it failed: {:?}", end.error)
    })?;
    ensure(end.read == must_read, Invariant::Liveness, || {
        format!("nothing kept it from completing, and its user read {} of {must_read}", end.read)
    })?;
    let is_confirmed = end.result.is_some_and(|result| result.confirmed);
    ensure(!is_calm || is_confirmed, Invariant::Liveness, || {
        format!("nothing was lost, and the close is {:?}", end.result)
    })
}

/// Checks that both ends know of a failure: if one failed, the other did not end as if all were well and delivered.
///
/// # Errors
///
/// If one end believes in a close that the other never saw.
pub fn check_agreement(end: &Ended, peer: &Ended) -> Result<(), Violation> {
    let failed_early = peer.error.is_some() && !peer.aborted;
    let believes = end.result.is_some_and(|result| result.confirmed) && end.error.is_none();
    // A peer that failed after it had acknowledged our FIN, or had sent its own, may leave us satisfied.
    let may_believe = end.fin.is_some_and(|fin| peer.acknowledges > fin) || peer.fin.is_some();
    ensure(!(failed_early && believes) || may_believe, Invariant::Liveness, || {
        format!("a confirmed close, and the peer failed: {:?}", peer.error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed(result: CloseResult) -> Ended {
        Ended { state: Some(State::Closed), result: Some(result), ..Ended::default() }
    }

    /// A closes with a FIN of number 3 that B acknowledged; B read everything.
    fn pair() -> (Ended, Ended) {
        let result = CloseResult { confirmed: true, ..CloseResult::default() };
        let a = Ended { fin: Some(3), next: 4, acked: 4, written: 2, confirms: true, ..closed(result) };
        let b = Ended { acknowledges: 4, arrived: 4, read: 2, confirms: true, ..closed(result) };
        (a, b)
    }

    #[test]
    fn an_honest_pair_passes() {
        let (a, b) = pair();
        for (end, peer) in [(&a, &b), (&b, &a)] {
            assert_eq!(check_final(end), Ok(()));
            assert_eq!(check_honest(end, peer), Ok(()));
            assert_eq!(check_discarded(end, peer), Ok(()));
            assert_eq!(check_agreement(end, peer), Ok(()));
        }
        assert_eq!(check_complete(&b, 2, true), Ok(()));
    }

    #[test]
    fn an_end_that_never_ends_or_gives_no_reason_fires() {
        let stuck = Ended { state: Some(State::FinWait), ..Ended::default() };
        assert!(check_final(&stuck).is_err());
        let silent = Ended { state: Some(State::Closed), ..Ended::default() };
        assert!(check_final(&silent).is_err());
        assert_eq!(check_final(&Ended::default()), Ok(()), "crashed");
    }

    #[test]
    fn a_confirmation_without_an_acknowledged_fin_fires() {
        let (a, mut b) = pair();
        b.acknowledges = 3;
        assert_eq!(check_honest(&a, &b).unwrap_err().invariant, Invariant::Ending);
    }

    #[test]
    fn a_confirmed_close_that_hides_unread_data_fires() {
        let (a, mut b) = pair();
        b.read = 1;
        assert!(check_honest(&a, &b).is_err());
        assert!(check_discarded(&b, &a).is_err());
    }

    #[test]
    fn more_discarded_than_the_peer_discarded_fires() {
        let (mut a, b) = pair();
        a.result = Some(CloseResult { confirmed: true, discarded_by_peer: 1, ..CloseResult::default() });
        assert!(check_honest(&a, &b).is_err());
    }

    #[test]
    fn an_exchange_that_fails_or_lacks_something_without_need_fires() {
        let (_, b) = pair();
        assert!(check_complete(&b, 3, false).is_err());
        let failed = Ended { error: Some(Error::Aborted), ..b };
        assert!(check_complete(&failed, 2, false).is_err());
        let unconfirmed = Ended { error: None, result: Some(CloseResult::default()), ..failed };
        assert!(check_complete(&unconfirmed, 2, true).is_err());
        assert_eq!(check_complete(&unconfirmed, 2, false), Ok(()), "lost acknowledgements may leave it open");
    }

    #[test]
    fn a_close_that_only_one_end_knows_of_fires() {
        let (mut a, mut b) = pair();
        (a.fin, b.error) = (Some(9), Some(Error::Aborted));
        assert!(check_agreement(&a, &b).is_err());
    }
}
