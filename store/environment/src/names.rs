//! Names of addresses, as the system's resolver knows them.

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;

use libc::{
    AF_INET, AF_INET6, NI_MAXHOST, NI_NAMEREQD, in_addr, in6_addr, sockaddr, sockaddr_in,
    sockaddr_in6, socklen_t,
};

/// The name of an address; fails if it has none. Blocks while the resolver asks.
pub fn name_of(address: IpAddr) -> io::Result<String> {
    match address {
        IpAddr::V4(address) => {
            // SAFETY: all zeros are a valid value of this C struct.
            let mut socket: sockaddr_in = unsafe { std::mem::zeroed() };
            socket.sin_family = AF_INET as _;
            socket.sin_addr = in_addr {
                s_addr: u32::from(address).to_be(),
            };
            ask(&raw const socket)
        }
        IpAddr::V6(address) => {
            // SAFETY: all zeros are a valid value of this C struct.
            let mut socket: sockaddr_in6 = unsafe { std::mem::zeroed() };
            socket.sin6_family = AF_INET6 as _;
            socket.sin6_addr = in6_addr {
                s6_addr: address.octets(),
            };
            ask(&raw const socket)
        }
    }
}

/// Asks for the name of a socket address of type `S`.
fn ask<S>(address: *const S) -> io::Result<String> {
    let mut name = [0u8; NI_MAXHOST as usize];
    // SAFETY: the address is a C socket address of this size, and the buffer has this length.
    let status = unsafe {
        libc::getnameinfo(
            address.cast::<sockaddr>(),
            size_of::<S>() as socklen_t,
            name.as_mut_ptr().cast(),
            NI_MAXHOST,
            std::ptr::null_mut(),
            0,
            NI_NAMEREQD,
        )
    };
    if status != 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    let name = CStr::from_bytes_until_nul(&name).map_err(io::Error::other)?;
    Ok(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_documentation_has_no_name() {
        for address in ["192.0.2.1", "2001:db8::1"] {
            assert!(name_of(address.parse().unwrap()).is_err());
        }
    }
}
