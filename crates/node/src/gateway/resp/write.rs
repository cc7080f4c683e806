//! Writers of RESP2: each appends one element to `out`.

use quorate_app::kv::decimal::Digits;

/// `+text`.
pub fn simple(out: &mut Vec<u8>, text: &str) {
    line(out, b'+', text.as_bytes());
}

/// `-text`; the text begins with the error's class, such as `ERR`.
pub fn error(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    line(out, b'-', text.as_ref());
}

/// `:number`.
pub fn integer(out: &mut Vec<u8>, number: i64) {
    head(out, b':', Digits::of(number));
}

/// `$length`, then the bytes.
pub fn bulk(out: &mut Vec<u8>, bytes: impl AsRef<[u8]>) {
    let bytes = bytes.as_ref();
    head(out, b'$', Digits::of_unsigned(bytes.len() as u64));
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// `$-1`: nothing.
pub fn nil(out: &mut Vec<u8>) {
    out.extend_from_slice(b"$-1\r\n");
}

/// `*-1`: no list.
pub fn nil_array(out: &mut Vec<u8>) {
    out.extend_from_slice(b"*-1\r\n");
}

/// `*count`, which `count` elements must follow.
pub fn array(out: &mut Vec<u8>, count: usize) {
    head(out, b'*', Digits::of_unsigned(count as u64));
}

fn head(out: &mut Vec<u8>, marker: u8, number: Digits) {
    out.push(marker);
    out.extend_from_slice(number.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A line break inside would end the element early: it becomes a space, as in Redis.
fn line(out: &mut Vec<u8>, marker: u8, text: &[u8]) {
    out.push(marker);
    out.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}
