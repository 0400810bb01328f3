//! What an application and a path tell congestion control through a stack.

mod marks;
mod requests;
