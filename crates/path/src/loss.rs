//! Random loss.

use crate::Probability;
use crate::probability::Dice;

/// Loses each packet with one probability, whatever happened to the others.
#[derive(Debug)]
pub(crate) struct Loss {
    probability: Probability,
    dice: Dice,
}

impl Loss {
    pub(crate) fn new(probability: Probability, dice: Dice) -> Self {
        Self { probability, dice }
    }

    pub(crate) fn loses(&mut self) -> bool {
        self.dice.says(self.probability)
    }
}
