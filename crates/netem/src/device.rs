//! TUN devices: whole IP packets, one for each read or write call.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{self, Updater};

use crate::error::NetError;

/// The name of the device in every namespace.
pub(crate) const DEVICE: &str = "net0";

/// `_IOW('T', 202, int)` of linux/if_tun.h.
const TUNSETIFF: ioctl::Opcode = ioctl::opcode::write::<std::ffi::c_int>(b'T', 202);
/// Packets without Ethernet frames.
const IFF_TUN: u16 = 0x0001;
/// No header in front of the packet.
const IFF_NO_PI: u16 = 0x1000;

/// `struct ifreq` of linux/if.h as TUNSETIFF takes it: a name, flags, and the rest of a union of 24
/// bytes.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// Creates the device in the namespace of the calling thread. It exists as long as the descriptor.
pub(crate) fn open() -> Result<OwnedFd, NetError> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let tun = rustix::fs::open("/dev/net/tun", flags, Mode::empty())
        .map_err(|errno| NetError::NoTun(errno.into()))?;
    let mut request = InterfaceRequest { name: [0; 16], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
    for (to, from) in request.name.iter_mut().zip(DEVICE.bytes()) {
        *to = from;
    }
    // SAFETY: TUNSETIFF reads and writes a struct ifreq. InterfaceRequest is one: 40 bytes on
    // 64-bit Linux, with the name ended by zeros.
    #[expect(unsafe_code, reason = "an ioctl of a driver has no safe wrapper")]
    let made = unsafe { ioctl::ioctl(&tun, Updater::<TUNSETIFF, _>::new(&mut request)) };
    made.map_err(|errno| match errno {
        rustix::io::Errno::PERM => NetError::NotPermitted(errno.into()),
        _ => NetError::System { doing: "making a TUN device".to_owned(), source: errno.into() },
    })?;
    Ok(tun)
}

/// The namespace of the calling thread, held open.
pub(crate) fn current_namespace() -> io::Result<OwnedFd> {
    File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
}

/// Moves the calling thread into a namespace.
pub(crate) fn enter(namespace: &OwnedFd) -> io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// Moves the calling thread into a new namespace.
pub(crate) fn leave_for_new() -> io::Result<()> {
    // SAFETY: only CLONE_NEWNET is requested: descriptors stay shared with the other threads.
    #[expect(unsafe_code, reason = "unshare can be unsafe, but is not with this flag")]
    let left = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
    Ok(left?)
}
