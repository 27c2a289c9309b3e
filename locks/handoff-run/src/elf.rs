//! The header of an ELF file: whether the program is dynamically linked, and for which machine.

/// How a program is loaded into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By a loader, which also loads its libraries.
    Dynamic,
    /// By the kernel alone.
    Static,
    /// For another machine than the one that this program is built for.
    Foreign,
}

const MAGIC: &[u8] = b"\x7fELF";
const CLASS_AT: usize = 4;
const CLASS_64: u8 = 2;
const ORDER_AT: usize = 5;
const ORDER_LITTLE: u8 = 1;
const MACHINE_AT: usize = 18;
const PROGRAM_HEADERS_AT: usize = 32;
const PROGRAM_HEADER_BYTES_AT: usize = 54;
const PROGRAM_HEADER_COUNT_AT: usize = 56;
/// The program header that names a loader.
const PT_INTERP: u32 = 3;

/// Kind of the program with this beginning; none if it is no ELF file, or its program headers
/// lie beyond `head`.
pub(crate) fn kind(head: &[u8]) -> Option<Kind> {
    if !head.starts_with(MAGIC) {
        return None;
    }
    if *head.get(CLASS_AT)? != CLASS_64 || *head.get(ORDER_AT)? != ORDER_LITTLE {
        return Some(Kind::Foreign);
    }
    let machine = half(head, MACHINE_AT)?;
    if own_machine().is_some_and(|own| own != machine) {
        return Some(Kind::Foreign);
    }
    let start: [u8; 8] = at(head, PROGRAM_HEADERS_AT)?;
    let start = usize::try_from(u64::from_le_bytes(start)).ok()?;
    let bytes = usize::from(half(head, PROGRAM_HEADER_BYTES_AT)?);
    for number in 0..usize::from(half(head, PROGRAM_HEADER_COUNT_AT)?) {
        let place = start.checked_add(number * bytes)?;
        if u32::from_le_bytes(at(head, place)?) == PT_INTERP {
            return Some(Kind::Dynamic);
        }
    }
    Some(Kind::Static)
}

/// ELF's number of this architecture; none if it is unknown.
fn own_machine() -> Option<u16> {
    match std::env::consts::ARCH {
        "x86_64" => Some(62),
        "aarch64" => Some(183),
        "riscv64" => Some(243),
        _ => None,
    }
}

fn half(head: &[u8], place: usize) -> Option<u16> {
    at(head, place).map(u16::from_le_bytes)
}

fn at<const N: usize>(head: &[u8], place: usize) -> Option<[u8; N]> {
    head.get(place..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The beginning of a file with one program header of this type.
    fn head(header: u32) -> Vec<u8> {
        let mut head = vec![0; 64 + 56];
        head[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let machine = own_machine().unwrap_or(0);
        head[MACHINE_AT..][..2].copy_from_slice(&machine.to_le_bytes());
        head[PROGRAM_HEADERS_AT] = 64;
        head[PROGRAM_HEADER_BYTES_AT] = 56;
        head[PROGRAM_HEADER_COUNT_AT] = 1;
        head[64..68].copy_from_slice(&header.to_le_bytes());
        head
    }

    #[test]
    fn a_program_is_static_if_it_names_no_loader() {
        assert_eq!(kind(&head(1)), Some(Kind::Static));
        assert_eq!(kind(&head(PT_INTERP)), Some(Kind::Dynamic));
    }

    #[test]
    fn other_architectures_are_foreign() {
        let mut narrow = head(PT_INTERP);
        narrow[CLASS_AT] = 1;
        assert_eq!(kind(&narrow), Some(Kind::Foreign));
        let mut other = head(PT_INTERP);
        other[MACHINE_AT] = 0xfe;
        assert_eq!(
            own_machine().and_then(|_| kind(&other)),
            own_machine().map(|_| Kind::Foreign)
        );
    }

    #[test]
    fn a_truncated_file_has_no_kind() {
        let whole = head(PT_INTERP);
        for length in 0..68 {
            let kind = kind(&whole[..length]);
            assert!(kind.is_none(), "{length} bytes: {kind:?}");
        }
        assert_eq!(kind(b"#!/bin/sh\n"), None);
    }
}
