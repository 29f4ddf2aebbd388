//! The whole experiment on a virtual clock, with responses that are planted: no test here
//! measures anything, and all may run at a time.

mod beside;
mod conduct;
mod course;
#[path = "../common/mock.rs"]
mod mock;
mod phases;
#[path = "../common/playing.rs"]
mod playing;
mod sequences;
mod switches;
mod time;
mod together;
mod truth;
