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

/// Where code at `address` has instructions of AVX-512, and which; decoded from its beginning on.
pub fn of_avx512(code: &[u8], address: u64) -> impl Iterator<Item = (u64, Described)> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    std::iter::from_fn(move || {
        while decoder.can_decode() {
            let at = (decoder.position(), decoder.ip());
            let instruction = decoder.decode();
            // Most code has another encoding, and to describe it takes longer than to decode it.
            let wide = !instruction.is_invalid() && instruction.encoding() == iced_x86::EncodingKind::EVEX;
            if let Some(found) = code.get(at.0..).filter(|_| wide).and_then(describe) {
                return Some((at.1, found));
            }
        }
        None
    })
    .filter(|(_, found)| found.is_avx512())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_searched_for_avx512() {
        // nop; vaddps ymm0, ymm1, ymm2; vaddps zmm0, zmm1, zmm2; ret.
        let code =
            [&[0x90][..], &[0xc5, 0xf4, 0x58, 0xc2], &[0x62, 0xf1, 0x74, 0x48, 0x58, 0xc2], &[0xc3]].concat();
        let found: Vec<u64> = of_avx512(&code, 0x1000).map(|(at, _)| at).collect();
        assert_eq!(found, [0x1005]);
        assert_eq!(of_avx512(&code[..5], 0x1000).count(), 0);
    }

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
