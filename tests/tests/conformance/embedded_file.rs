//! What only a file can suffer: a second opener, damage, a clock that was set back.
