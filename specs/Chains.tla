------------------------------- MODULE Chains -------------------------------
(* Chains of blocks. A block's identity fixes its view and its parent (it is a hash), and its parent is always the     *)
(* block of the certificate that it carries. So a certificate is named by its block here: at most one is needed a      *)
(* block, and "the justify of b" is ParentOf(b).                                                                        *)
EXTENDS Naturals

CONSTANTS Genesis,      \* the first block: of view 0, its own parent
          ViewOf(_),    \* the view that a block was proposed in
          ParentOf(_)   \* the block of the certificate in it

RECURSIVE Extends(_, _)
(* b is a, or descends from it. *)
Extends(b, a) == IF ViewOf(b) <= ViewOf(a) THEN b = a ELSE Extends(ParentOf(b), a)

Comparable(a, b) == Extends(a, b) \/ Extends(b, a)

(* b is of the view right behind its parent's. *)
Consecutive(b) == ViewOf(b) = ViewOf(ParentOf(b)) + 1
=============================================================================
