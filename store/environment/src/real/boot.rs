//! The identity of the running kernel's boot.

use super::open::short_text;

/// A random id that Linux draws at boot; the same for all processes and containers.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Returns an id of this boot of the kernel. After a boot with another id, the page cache of the
/// earlier boot is lost. `None` if the id cannot be read here.
pub fn boot_id() -> Option<String> {
    let id = short_text(BOOT_ID)?;
    let is_id = !id.is_empty() && id.bytes().all(|it| it.is_ascii_hexdigit() || it == b'-');
    is_id.then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_id_is_a_uuid_that_does_not_change() {
        assert!(boot_id().is_some_and(|id| id.len() == 36));
        assert_eq!(boot_id(), boot_id());
    }
}
