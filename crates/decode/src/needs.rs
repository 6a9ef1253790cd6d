//! Which instruction this is, and what a cpu must have to execute it.

use iced_x86::{Decoder, DecoderOptions};

/// An instruction in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Its form in the manuals' notation, e.g. `VADDPS zmm1 {k1}{z}, zmm2, zmm3/m512/m32bcst{er}`.
    pub form: String,
    /// Feature flags of CPUID that it needs, e.g. `AVX512F`.
    pub features: Vec<String>,
}

impl Described {
    /// Whether it belongs to AVX-512.
    pub fn is_avx512(&self) -> bool {
        self.features.iter().any(|f| f.starts_with("AVX512"))
    }
}

/// Describes the x86-64 instruction that `code` begins with; `None` if it is none.
pub fn describe(code: &[u8]) -> Option<Described> {
    let instruction = Decoder::new(64, code, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return None;
    }
    let features = instruction.cpuid_features().iter().map(|f| format!("{f:?}")).collect();
    Some(Described { form: instruction.op_code().instruction_string().to_owned(), features })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn avx512_is_told_from_avx2() {
        // vaddps zmm0, zmm1, zmm2 and vaddps ymm0, ymm1, ymm2.
        let wide = describe(&[0x62, 0xf1, 0x74, 0x48, 0x58, 0xc2]).unwrap();
        assert!(wide.is_avx512() && wide.form.contains("zmm"), "{wide:?}");
        let narrow = describe(&[0xc5, 0xf4, 0x58, 0xc2]).unwrap();
        assert!(!narrow.is_avx512() && narrow.features == ["AVX"], "{narrow:?}");
        assert_eq!(describe(&[0x06]), None);
    }
}
