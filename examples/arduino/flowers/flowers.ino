// Labels flowers whose four measurements arrive on the serial line, one line per flower:
//   5.1 3.5 1.4 0.2
// flowers.h was written by: polymargin train iris.csv --fit-into 300 --target c -o flowers.pm

#include "flowers.h"

float measured[FLOWERS_N_FEATURES];
int have = 0;

void setup() {
  Serial.begin(115200);
}

void loop() {
  if (!Serial.available()) return;
  measured[have] = Serial.parseFloat();
  have = have + 1;
  if (have < FLOWERS_N_FEATURES) return;
  have = 0;
  int kind = flowers_predict(measured);
  Serial.println(kind < 0 ? "no number" : flowers_label(kind));
}
