//! What a record allows one to say.
