use bytes::Bytes;
use quorate_core::base::crypto::{ClientSigner, Signer};
use quorate_core::base::types::{Digest, Sequence, SessionId};
use quorate_core::base::wire::Decode;
use quorate_core::client::{DoesNotFit, Packed};
use quorate_core::ledger::frame::{Frame, MAX_BODY_BYTES, MAX_COMMANDS};

#[test]
fn splits_share_the_bytes() {
    let mut packed = Packed::commands(["a", "", "ccc"]).unwrap();
    let body = packed.body().clone();
    let front = packed.split_to(2);
    assert_eq!(front.iter().collect::<Vec<_>>(), [Bytes::from("a"), Bytes::new()]);
    assert_eq!(packed.iter().collect::<Vec<_>>(), [Bytes::from("ccc")]);
    assert_eq!((front.len(), packed.len()), (2, 1));
    assert!(body.as_ptr_range().contains(&packed.iter().next().unwrap().as_ptr()));
    assert_eq!(packed.split_to(5).len(), 1);
    assert!(packed.is_empty());
}

#[test]
fn only_what_is_packed_is_taken_for_it() {
    let body = Packed::commands(["a", "bb"]).unwrap().body().clone();
    assert!(Packed::parse(body.clone(), 2).is_some());
    assert!(Packed::parse(body.clone(), 1).is_none());
    assert!(Packed::parse(body.clone(), 3).is_none());
    assert!(Packed::parse(body.slice(..body.len() - 1), 2).is_none());
    assert!(Packed::parse(Bytes::from_static(&[255, 255, 255, 255]), 1).is_none());
}

#[test]
fn a_batch_fits_in_a_frame() {
    assert!(Packed::commands(vec![""; MAX_COMMANDS]).is_ok());
    assert_eq!(Packed::commands(vec![""; MAX_COMMANDS + 1]), Err(DoesNotFit));
    assert!(Packed::commands([vec![0; MAX_BODY_BYTES - 4]]).is_ok());
    assert_eq!(Packed::commands([vec![0; MAX_BODY_BYTES - 3]]), Err(DoesNotFit));
    assert_eq!(Packed::commands::<&str>([]), Err(DoesNotFit));
}

#[test]
fn a_frame_of_packed_commands_is_the_frame_of_those_commands() {
    let signer = crate::MockSigner;
    let (key, chain) = (signer.public_key(), Digest::of("test", b"chain"));
    let (session, first) = (SessionId(3), Sequence(9));
    let parts = [Packed::commands(["a", "bb"]).unwrap(), Packed::commands([""]).unwrap()];
    let sign = |statement: &_| signer.sign(statement);
    let packed = Frame::of_packed(key, session, first, parts.iter(), &chain, sign).unwrap();
    let commands = [&b"a"[..], b"bb", b""];
    let built = Frame::build(key, session, first, commands, &chain, sign).unwrap();
    assert_eq!(packed, built);
    assert_eq!(Frame::from_bytes(packed.encoded_bytes().clone()), Ok(packed));
    let many = vec![Packed::commands(vec![""; MAX_COMMANDS]).unwrap(); 2];
    assert!(Frame::of_packed(key, session, first, many.iter(), &chain, sign).is_none());
}
