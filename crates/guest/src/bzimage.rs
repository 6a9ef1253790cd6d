//! The header of a kernel image.

use nearfar_host::input;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The release in the header of a bzImage (Documentation/arch/x86/boot.rst): at 0x20e is where
/// the text is, less 0x200.
pub(super) fn release(image: &Path) -> Result<String, String> {
    let (mut file, _) = input::open(image).map_err(|error| error.to_string())?;
    let mut header = [0; 0x210];
    file.read_exact(&mut header).map_err(|_| "too short for a kernel".to_owned())?;
    if &header[0x202..0x206] != b"HdrS" {
        return Err("not a Linux kernel for x86 (no boot header)".into());
    }
    let at = u64::from(u16::from_le_bytes([header[0x20e], header[0x20f]])) + 0x200;
    let mut text = [0; 128];
    file.seek(SeekFrom::Start(at)).map_err(|error| error.to_string())?;
    let got = file.read(&mut text).map_err(|error| error.to_string())?;
    let text = text[..got].split(|&b| b == 0 || b == b' ').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}
