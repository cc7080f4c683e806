//! Whether the kernel can emulate links by itself.
