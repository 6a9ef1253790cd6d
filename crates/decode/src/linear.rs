//! Addresses as linear forms over registers.
//!
//! An x86 address is already one (`base + scale * index + displacement`), and
//! the register updates compilers put between a load and its sample (`add r, 8`,
//! `mov r, s`, `lea`) keep it one. So undoing or replaying those updates is
//! substitution, and evaluating a cached plan is a few multiplications.

/// How much of a register enters a form, and how it is widened to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Full,
    Zero32,
    Sign32,
    Zero16,
    Zero8,
}

impl Width {
    fn widen(self, value: u64) -> u64 {
        match self {
            Width::Full => value,
            Width::Zero32 => value & 0xffff_ffff,
            Width::Sign32 => value as u32 as i32 as i64 as u64,
            Width::Zero16 => value & 0xffff,
            Width::Zero8 => value & 0xff,
        }
    }
}

/// `factor * widen(register)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Term {
    /// x86 encoding order: rax is 0, r15 is 15.
    pub register: u8,
    pub width: Width,
    pub factor: i64,
}

/// A sum of terms and a constant, modulo 2^64.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Linear {
    pub terms: Vec<Term>,
    pub constant: i64,
}

/// One expression per register; `None` where nothing is known.
pub(super) type State = [Option<Linear>; 16];

/// Each register stands for itself.
pub(super) fn identity() -> State {
    std::array::from_fn(|register| Some(Linear::register(register as u8)))
}

/// Longer forms do not come from addresses; they are accidents of long walks.
const MAX_TERMS: usize = 6;

impl Linear {
    pub fn constant(value: i64) -> Linear {
        Linear { terms: Vec::new(), constant: value }
    }

    pub fn register(register: u8) -> Linear {
        Linear::widened(register, Width::Full)
    }

    pub fn widened(register: u8, width: Width) -> Linear {
        Linear { terms: vec![Term { register, width, factor: 1 }], constant: 0 }
    }

    pub fn plus_constant(mut self, value: i64) -> Linear {
        self.constant = self.constant.wrapping_add(value);
        self
    }

    /// Adds `factor * other`.
    pub fn plus(mut self, other: &Linear, factor: i64) -> Linear {
        for term in &other.terms {
            let added = term.factor.wrapping_mul(factor);
            match self.terms.iter_mut().find(|own| own.register == term.register && own.width == term.width) {
                Some(own) => own.factor = own.factor.wrapping_add(added),
                None => self.terms.push(Term { factor: added, ..*term }),
            }
        }
        self.terms.retain(|term| term.factor != 0);
        self.constant = self.constant.wrapping_add(other.constant.wrapping_mul(factor));
        self
    }

    pub fn mentions(&self, register: u8) -> bool {
        self.terms.iter().any(|term| term.register == register)
    }

    /// The register and constant of a form that is one register plus a constant.
    pub fn single(&self) -> Option<(u8, i64)> {
        match self.terms[..] {
            [Term { register, width: Width::Full, factor: 1 }] => Some((register, self.constant)),
            _ => None,
        }
    }

    /// Replaces each register by its expression; `None` if one has none.
    pub fn substitute(&self, state: &State) -> Option<Linear> {
        let mut result = Linear::constant(self.constant);
        for term in &self.terms {
            let value = state[usize::from(term.register)].as_ref()?;
            let widened = match term.width {
                Width::Full => value.clone(),
                width => value.narrow(width)?,
            };
            result = result.plus(&widened, term.factor);
        }
        (result.terms.len() <= MAX_TERMS).then_some(result)
    }

    /// `widen(self)`, for the forms in which widening commutes: a constant, or
    /// one register plus a constant. The latter assumes that the narrow sum does
    /// not wrap, as C guarantees for the signed indexes that this is for.
    fn narrow(&self, width: Width) -> Option<Linear> {
        match self.terms[..] {
            [] => Some(Linear::constant(width.widen(self.constant as u64) as i64)),
            [term] if term.factor == 1 => {
                // Narrowing what was narrowed further already changes nothing.
                let bits = |width| match width {
                    Width::Full => 64,
                    Width::Zero32 | Width::Sign32 => 32,
                    Width::Zero16 => 16,
                    Width::Zero8 => 8,
                };
                let kept = match bits(width) <= bits(term.width) {
                    true => width,
                    false => term.width,
                };
                let short = matches!(width, Width::Zero16 | Width::Zero8);
                if short && self.constant != 0 {
                    // Byte counters wrap as a matter of course.
                    return None;
                }
                Some(Linear::widened(term.register, kept).plus_constant(self.constant))
            }
            _ => None,
        }
    }

    pub fn evaluate(&self, registers: &[u64; 16]) -> u64 {
        self.terms.iter().fold(self.constant as u64, |sum, term| {
            let value = term.width.widen(registers[usize::from(term.register & 15)]);
            sum.wrapping_add(value.wrapping_mul(term.factor as u64))
        })
    }
}
