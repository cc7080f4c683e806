//! The Snow family: its rules by transcripts, its promises by small networks without a world.

mod alone;
mod avalanche;
mod colours;
mod floods;
mod network;
mod snowman;
