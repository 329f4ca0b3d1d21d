//! What an end reports held out of order, against what reached it and what it reported before.

use std::collections::BTreeSet;

use weft_wire::{FarSack, Kind, Sack, Tlvs};

use super::EndWatch;
use crate::violation::{Invariant, Violation, ensure};

impl EndWatch {
    pub(super) fn check_report(
        &mut self,
        irs: u64,
        count: u64,
        tlvs: &Tlvs,
        kind: Kind,
        may_report: bool,
    ) -> Result<(), Violation> {
        ensure((tlvs.sack.is_none() && tlvs.far_sack.is_none()) || may_report, Invariant::Form, || {
            "[CDP-SYN-11] SACK or FARSACK to a peer that did not send SACKOK".into()
        })?;
        let near = tlvs.sack.iter().flat_map(Sack::runs).flatten().map(u64::from);
        let far = tlvs.far_sack.iter().flat_map(FarSack::held);
        let told: BTreeSet<u64> = near.chain(far).map(|at| count + 1 + at).collect();
        // [CDP-SACK-3] what was reported once stays, as far as the bitmaps reach; PIN need not report
        if kind == Kind::Ack && may_report {
            let reach = count + 1 + u64::from(Sack::BITS_MAX);
            let piece = match &tlvs.far_sack {
                Some(piece) => {
                    self.names_far = true;
                    let from = count + 1 + u64::from(piece.offset());
                    let is_full = piece.bits() == FarSack::BITS_MAX;
                    // [CDP-SACK-7] a piece that is not full says that nothing is held after it
                    from..if is_full { from + u64::from(piece.bits()) } else { u64::MAX }
                }
                // [CDP-SACK-7] once there was one, none says the same of all beyond SACK
                None if self.names_far => reach..u64::MAX,
                None => 0..0,
            };
            let is_forgotten =
                |number: &u64| (*number < reach || piece.contains(number)) && !told.contains(number);
            let forgotten = self.reported.from(count + 1).find(is_forgotten);
            ensure(forgotten.is_none(), Invariant::Acknowledged, || {
                format!("number {forgotten:?} was reported held and is not any more (ACK number {count})")
            })?;
        }
        let arrived = self.arrived.get(&irs);
        for number in told {
            ensure(arrived.is_some_and(|arrived| arrived.contains(number)), Invariant::Acknowledged, || {
                format!("number {number} is reported held and never arrived")
            })?;
            self.reported.insert(number);
        }
        Ok(())
    }
}
