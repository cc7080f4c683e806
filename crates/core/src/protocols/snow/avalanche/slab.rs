//! Values at small numbers that are used again: what the graph points with.

/// Values by place.
#[derive(Clone, Debug)]
pub(super) struct Slab<V> {
    values: Vec<Option<V>>,
    free: Vec<u32>,
}

impl<V> Default for Slab<V> {
    fn default() -> Self {
        Self { values: Vec::new(), free: Vec::new() }
    }
}

impl<V> Slab<V> {
    pub(super) fn insert(&mut self, value: V) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.values[at as usize] = Some(value);
                at
            }
            None => {
                self.values.push(Some(value));
                (self.values.len() - 1) as u32
            }
        }
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<V> {
        let value = self.values.get_mut(at as usize)?.take();
        if value.is_some() {
            self.free.push(at);
        }
        value
    }

    pub(super) fn get(&self, at: u32) -> Option<&V> {
        self.values.get(at as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut V> {
        self.values.get_mut(at as usize)?.as_mut()
    }

    pub(super) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &V)> {
        let places = self.values.iter().enumerate();
        places.filter_map(|(at, value)| value.as_ref().map(|value| (at as u32, value)))
    }
}

/// The place must be taken: the graph holds no places of removed values.
impl<V> std::ops::Index<u32> for Slab<V> {
    type Output = V;

    fn index(&self, at: u32) -> &V {
        self.get(at).expect("the graph points at what is there")
    }
}

impl<V> std::ops::IndexMut<u32> for Slab<V> {
    fn index_mut(&mut self, at: u32) -> &mut V {
        self.get_mut(at).expect("the graph points at what is there")
    }
}
