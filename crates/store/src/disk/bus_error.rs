//! A handler of SIGBUS that names the unreadable file, the offset and the remedy.
//!
//! A map covers its file as it was when the map was made. If another program shortens the file, or
//! the disk cannot read a block, the kernel can only send SIGBUS, which ends the process without a
//! message. So every map is entered in a table. A process may install a handler
//! ([`explain_bus_errors`]). It finds the address in the table and writes a line before the process
//! ends as it would have.
//!
//! The handler may run at any instruction. It takes no lock, allocates nothing, and calls only
//! functions that POSIX lists as safe there. So names are formatted when the map is made. An entry
//! is freed only when no handler can read it: its owner first empties its place and then counts the
//! handlers, while a handler first counts itself and then reads places. All of this is in one
//! order.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};

/// Places in a piece of the table. Further pieces are made on demand, and kept.
const PLACES: usize = 512;
/// The digits of the greatest u64.
const DIGITS: usize = 20;

/// The reader of standard error may be slow. The handler waits for it this often, ...
const WAITS: u32 = 200;
/// ... for this long each time.
const WAIT_NS: i64 = 5_000_000;

/// A map, as the handler finds it.
struct Mapped {
    start: usize,
    bytes: usize,
    action: &'static str,
    /// Its file, ...
    path: CString,
    /// ... and the folder of that.
    folder: Box<[u8]>,
}

struct Piece {
    places: [AtomicPtr<Mapped>; PLACES],
    next: AtomicPtr<Piece>,
}

impl Piece {
    const fn new() -> Piece {
        Piece {
            places: [const { AtomicPtr::new(ptr::null_mut()) }; PLACES],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The next piece.
    fn next(&self) -> Option<&'static Piece> {
        // SAFETY: null, or a piece that was leaked.
        unsafe { self.next.load(Ordering::SeqCst).as_ref() }
    }

    /// The next piece, made if there is none.
    fn next_or_new(&self) -> &'static Piece {
        if let Some(next) = self.next() {
            return next;
        }
        let new = Box::into_raw(Box::new(Piece::new()));
        let none = ptr::null_mut();
        let set = self.next.compare_exchange(none, new, Ordering::SeqCst, Ordering::SeqCst);
        let next = match set {
            Ok(_) => new,
            Err(other) => {
                // SAFETY: no other thread has seen it.
                drop(unsafe { Box::from_raw(new) });
                other
            }
        };
        // SAFETY: not null, and leaked.
        unsafe { &*next }
    }
}

static TABLE: Piece = Piece::new();
/// The number of handlers that may be reading entries.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// A map's entry in the table. It is removed when dropped, which must come before the map's end.
pub(super) struct Listed(&'static AtomicPtr<Mapped>);

impl Listed {
    /// Enters a map of `file`; `action` names the kind of access.
    pub(super) fn new(file: &File, start: *const u8, bytes: usize, action: &'static str) -> Listed {
        let path = path_of(file);
        let folder = path.parent().map(|parent| parent.as_os_str().as_encoded_bytes().into());
        let path = CString::new(path.into_os_string().into_vec()).unwrap_or_default();
        let folder = folder.unwrap_or_default();
        let entry = Box::new(Mapped { start: start.addr(), bytes, action, path, folder });
        let entry = Box::into_raw(entry);
        let mut piece = &TABLE;
        loop {
            for place in &piece.places {
                let none = ptr::null_mut();
                // Most places are taken. A plain load first leaves their cache lines to their
                // readers.
                if place.load(Ordering::Relaxed).is_null()
                    && place
                        .compare_exchange(none, entry, Ordering::SeqCst, Ordering::Relaxed)
                        .is_ok()
                {
                    return Listed(place);
                }
            }
            piece = piece.next_or_new();
        }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let entry = self.0.swap(ptr::null_mut(), Ordering::SeqCst);
        // A running handler may have found it. Then the entry is leaked, because the process is
        // about to end.
        if LOOKING.load(Ordering::SeqCst) == 0 && !entry.is_null() {
            // SAFETY: from `Box::into_raw`, removed once, and handlers that start now do not find
            // it.
            drop(unsafe { Box::from_raw(entry) });
        }
    }
}

/// The system's name of an open file, which may have been renamed since it was opened.
fn path_of(file: &File) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .unwrap_or_else(|_| PathBuf::from("a mapped file of a store"))
}

/// The previous action for SIGBUS. Set before the handler is installed.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(ptr::null_mut());

/// Installs a handler that explains SIGBUS from a mapped file of a store. It writes a line on
/// standard error with the file, the offset, the cause and the remedy. Then the process ends as it
/// would have, or the previous handler runs. The handler is for the whole process, so only programs
/// should call this, not libraries. A second call does nothing.
///
/// # Errors
/// The system's error.
pub fn explain_bus_errors() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: no new action, and room for the current one.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed, which is a valid value, then filled in.
    let before = unsafe { before.assume_init() };
    let before = BEFORE.swap(Box::into_raw(Box::new(before)), Ordering::SeqCst);
    if !before.is_null() {
        // SAFETY: from a failed attempt, so no handler knows it.
        drop(unsafe { Box::from_raw(before) });
    }
    // SAFETY: all zeros are a valid value.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    let handler: Handler = handle;
    action.sa_sigaction = handler as libc::sighandler_t;
    // On the alternate signal stack, if the thread has one: its own stack may have caused the
    // fault.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: an action of its own, completely initialised.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    *installed = true;
    Ok(())
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the address of this thread's errno, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes it to a handler of this kind.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    let is_fault = code > 0;
    if is_fault {
        LOOKING.fetch_add(1, Ordering::SeqCst);
        if let Some(mapped) = find(address) {
            tell_once(mapped, (address - mapped.start) as u64);
        }
        LOOKING.fetch_sub(1, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    go_on(signal, info, context, is_fault);
}

/// The map that contains an address.
fn find(address: usize) -> Option<&'static Mapped> {
    let mut piece = Some(&TABLE);
    while let Some(there) = piece {
        for place in &there.places {
            // SAFETY: null, or an entry that is not freed while a handler is counted; the caller is
            // counted.
            let entry = unsafe { place.load(Ordering::SeqCst).as_ref() };
            if let Some(entry) = entry
                && address.wrapping_sub(entry.start) < entry.bytes
            {
                return Some(entry);
            }
        }
        piece = there.next();
    }
    None
}

/// Writes the line once for each process: the previous handler may let the instruction be retried,
/// and other threads may fail too. They wait until the line is written, because they will end the
/// process.
fn tell_once(mapped: &Mapped, offset: u64) {
    static STATE: AtomicU8 = AtomicU8::new(UNTOLD);
    const UNTOLD: u8 = 0;
    const TELLING: u8 = 1;
    const TOLD: u8 = 2;
    let state = STATE.compare_exchange(UNTOLD, TELLING, Ordering::SeqCst, Ordering::SeqCst);
    if state.is_ok() {
        tell(mapped, offset);
        STATE.store(TOLD, Ordering::SeqCst);
        return;
    }
    for _ in 0..WAITS {
        if STATE.load(Ordering::SeqCst) == TOLD {
            return;
        }
        let pause = libc::timespec { tv_sec: 0, tv_nsec: WAIT_NS };
        // SAFETY: a time to wait, and no place for the remaining time.
        unsafe { libc::nanosleep(&raw const pause, ptr::null_mut()) };
    }
}

/// Writes the line.
fn tell(mapped: &Mapped, offset: u64) {
    let mut stat = MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a text that ends with a zero byte, and room for the result.
    let is_there = unsafe { libc::stat(mapped.path.as_ptr(), stat.as_mut_ptr()) } == 0;
    // SAFETY: all zeros are a valid value.
    let size = u64::try_from(unsafe { stat.assume_init() }.st_size).unwrap_or(0);
    let (mut at, mut end) = ([0; DIGITS], [0; DIGITS]);
    let (at, end) = (digits(offset, &mut at), digits(size, &mut end));
    let what: [&[u8]; 3] = match is_there {
        false => [b"the file is not there any more", b"", b""],
        true if size <= offset => [b"the file was shortened to ", end, b" bytes while it was open"],
        true => [b"the disk failed to read or write the block", b"", b""],
    };
    let [what, length, unit] = what;
    let pieces: [&[u8]; 12] = [
        b"error: SIGBUS: cannot ",
        mapped.action.as_bytes(),
        b" ",
        mapped.path.to_bytes(),
        b" at offset ",
        at,
        b": ",
        what,
        length,
        unit,
        b"; restore the file from a copy, then verify it: quorate store check ",
        &mapped.folder,
    ];
    let line_end: &[u8] = b"\n";
    let mut vectors = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 13];
    for (vector, piece) in vectors.iter_mut().zip(pieces.iter().chain([&line_end])) {
        *vector = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() };
    }
    // One call, so that the line stays whole. If standard error is closed, nobody reads it. SAFETY:
    // each vector points to live bytes, which are only read.
    unsafe { libc::writev(libc::STDERR_FILENO, vectors.as_ptr(), vectors.len() as c_int) };
}

/// A number in decimal digits.
fn digits(mut number: u64, into: &mut [u8; DIGITS]) -> &[u8] {
    let mut from = DIGITS;
    for (index, place) in into.iter_mut().enumerate().rev() {
        *place = b'0' + (number % 10) as u8;
        from = index;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    into.get(from..).unwrap_or(&[])
}

/// Does what would have happened without this handler.
fn go_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, is_fault: bool) {
    // SAFETY: null, or set before this handler was installed, and kept.
    let before = unsafe { BEFORE.load(Ordering::SeqCst).as_ref() };
    match before.map(|before| (before.sa_sigaction, before.sa_flags)) {
        None | Some((libc::SIG_DFL, _)) => end(signal, is_fault),
        // A fault cannot be ignored: the kernel would end the process.
        Some((libc::SIG_IGN, _)) if is_fault => end(signal, is_fault),
        Some((libc::SIG_IGN, _)) => {}
        Some((handler, flags)) if flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: sigaction returned this address for a handler of this kind.
            let handler: Handler = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        Some((handler, _)) => {
            // SAFETY: sigaction returned this address for a handler of the other kind.
            let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// The default action. A fault happens again on return, so a core dump has its address. A signal
/// that was sent must be sent again.
fn end(signal: c_int, is_fault: bool) {
    // SAFETY: the default action is valid for every signal.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    if !is_fault {
        // SAFETY: a valid signal; it is delivered when the handler returns.
        unsafe { libc::raise(signal) };
    }
}
